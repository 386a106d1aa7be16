package cli

import (
	"context"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/estate/leftout"
	"homelab/lab/present"
	"homelab/lab/workspace"
)

func (p *program) statusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "clusters and addons, with version, sync and health",
		Description: "With --check, exits with status 4 unless everything is ready, in sync and healthy.\n\n" +
			examples("lab status", "lab status -o json", "lab status --check"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag,
			&cli.BoolFlag{Name: "check", Usage: "exit with 4 unless everything is ready, in sync and healthy"},
		},
		Action: p.labAction(p.existing, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
			return p.status(c.Context, ws, c.Bool("check"))
		}),
	}
}

func (p *program) status(ctx context.Context, ws *workspace.Workspace, check bool) error {
	l, err := assembleWithEstate(ws)
	if err != nil {
		return err
	}
	lacking, err := untrusted(ws, l.core.Estate)
	if err != nil {
		return err
	}
	gone, err := unavailable(ctx, ws, l.core.Estate)
	if err != nil {
		return err
	}
	leftout.Mark(l.core.Estate, gone)
	st, err := l.core.Status(ctx)
	if err != nil {
		return err
	}
	res := present.Status(l.core, ws, st)
	present.Distrust(&res, lacking)
	if err := p.ui.Status(res); err != nil {
		return err
	}
	if check && !st.Well() {
		return exitError{lab.ExitUnmet}
	}
	return nil
}
