package cli

import (
	"context"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/ui"
	"homelab/lab/up"
	"homelab/lab/workspace"
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
			ws, err := p.existing(c)
			if err != nil {
				return err
			}
			return p.status(c.Context, ws, c.Bool("check"))
		},
	}
}

func (p *program) status(ctx context.Context, ws *workspace.Workspace, check bool) error {
	l, err := loaded(ws)
	if err != nil {
		return err
	}
	if _, err := leaveOut(ctx, l.core.Estate, false); err != nil {
		return err
	}
	st, err := l.core.Status(ctx)
	if err != nil {
		return err
	}
	if err := p.ui.Status(statusResult(l, st)); err != nil {
		return err
	}
	if check && !st.Well() {
		return exitError{lab.ExitUnmet}
	}
	return nil
}

// statusResult is a status with what a reader may do about it.
func statusResult(l *instance, st up.Status) ui.Status {
	ws, engine, creds := l.ws, string(l.core.Definition.Type), l.core.Creds
	res := ui.Status{
		Lab: ws.Name, Engine: string(st.Engine), Revision: st.Revision, Clusters: ui.StatusClusters(st.Clusters), Applications: st.Applications, Off: st.Off,
		Endpoints: []ui.Endpoint{
			{Name: engine, URL: l.core.EngineURL(), User: creds.EngineUser, PasswordBy: ws.Command("lab creds " + engine)},
			{Name: "forge", URL: l.core.ForgeURL(), User: creds.ForgeUser, PasswordBy: ws.Command("lab creds forge")},
		},
	}
	if len(st.Off) > 0 {
		res.Starts = ws.OnEstate("lab up")
	}
	return res
}
