package cli

import (
	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/doctor"
	"homelab/lab/ui"
	"homelab/lab/up"
)

func (p *program) statusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "clusters and addons, with version, sync and health",
		Description: "Exit status 4 with --check when something is not in sync, not healthy or not ready.\n\n" +
			examples("lab status", "lab status -o json", "lab status --check"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag,
			&cli.BoolFlag{Name: "check", Usage: "exit with 4 unless everything is ready, in sync and healthy"},
		},
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			s, err := p.existing(c)
			if err != nil {
				return err
			}
			est, err := s.load()
			if err != nil {
				return err
			}
			if _, err := leaveOut(c.Context, est, false); err != nil {
				return err
			}
			w, err := s.openWorld(est, doctor.Traits{})
			if err != nil {
				return err
			}
			st, err := w.Status(c.Context)
			if err != nil {
				return err
			}
			if err := p.ui.Status(w.statusResult(st)); err != nil {
				return err
			}
			if c.Bool("check") && !st.Well() {
				return exitError{lab.ExitUnmet}
			}
			return nil
		},
	}
}

// statusResult is a status with what a reader may do about it.
func (w *world) statusResult(st up.Status) ui.Status {
	res := ui.Status{
		Lab: w.name, Engine: string(st.Engine), Revision: st.Revision, Clusters: ui.StatusClusters(st.Clusters), Applications: st.Applications, Off: st.Off,
		Endpoints: []ui.Endpoint{
			{Name: string(w.Definition.Type), URL: w.EngineURL(), User: w.Creds.EngineUser, PasswordBy: w.command("lab creds " + string(w.Definition.Type))},
			{Name: "forge", URL: w.forgeURL(), User: w.Creds.ForgeUser, PasswordBy: w.command("lab creds forge")},
		},
	}
	if len(st.Off) > 0 {
		res.Starts = w.onEstate("lab up")
	}
	return res
}
