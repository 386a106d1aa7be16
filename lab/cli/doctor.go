package cli

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/doctor"
	"homelab/lab/present"
	"homelab/lab/state"
	"homelab/lab/supply/source"
	"homelab/lab/workspace"
)

func (p *program) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "check this machine, and cure it with --fix",
		Description: "Without --fix nothing on the host is changed. With it, as root on Linux, what can be cured safely is cured, and said before it is done.\n\n" +
			examples("lab doctor", "lab doctor --fix", "lab doctor -o json"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag, imagesFlag, mirrorFlag,
			&cli.BoolFlag{Name: "fix", Usage: "apply the cures that are safe"},
		},
		Action: p.on(p.open, noArgs, func(c *cli.Context, ws *workspace.Workspace) error {
			return p.doctor(c.Context, ws, originOf(c), c.Bool("fix"))
		}),
	}
}

func (p *program) doctor(ctx context.Context, ws *workspace.Workspace, from origin, fix bool) error {
	est, err := ws.Load()
	if err != nil {
		return err
	}
	s, err := openSupply(ctx, from)
	if wrong := (*lab.Error)(nil); err != nil && (!errors.As(err, &wrong) || wrong.Exit != lab.ExitFailed) {
		return err
	}
	o := doctorOptions(ws.ToMake(est), err == nil && s.Builds())
	o.Images = err // a finding like others
	report, err := doctor.New(o).Examine(ctx, fix, p.ui.Say)
	if err != nil {
		return err
	}
	if err := p.ui.Doctor(present.Report(report)); err != nil {
		return err
	}
	if report.Count(doctor.StatusFail) > 0 {
		return exitError{lab.ExitFailed}
	}
	return nil
}

// doctorOptions are for what is still to be made: clusters that run hold their memory already.
func doctorOptions(clusters int, build bool) doctor.Options {
	cache, _ := state.CacheRoot() // empty where there is no home for it
	return doctor.Options{
		Docker: docker.New(), Clusters: clusters, Engine: clusters > 0, BuildFromSource: build, Needs: buildNeeds(), CacheDir: cache,
	}
}

// buildNeeds are the programs that building images from source takes.
func buildNeeds() []doctor.Need {
	var needs []doctor.Need
	for _, n := range source.Needs() {
		needs = append(needs, doctor.Need{Program: n.Program, Package: n.Package})
	}
	return needs
}
