package cli

import (
	"context"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/ui"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

func (p *program) downCommand() *cli.Command {
	return &cli.Command{
		Name:  "down",
		Usage: "remove the lab: its clusters, forge, network, volumes and files, and nothing else",
		Description: "What other labs, kind and you yourself made stays. Images and charts stay in the cache for the next lab up, and snapshots for lab up --from.\n\n" +
			examples("lab down", "lab down --snapshots", "lab down --name demo", "lab down -o json"),
		Flags: []cli.Flag{nameFlag, estateFlag, outputFlag, &cli.BoolFlag{Name: "snapshots", Usage: "remove its snapshots, too"}},
		Action: p.on(p.open, noArgs, func(c *cli.Context, ws *workspace.Workspace) error {
			return ws.Locked(c.Context, func(ctx context.Context) error { return p.down(ctx, ws, c.Bool("snapshots")) })
		}),
	}
}

func (p *program) down(ctx context.Context, ws *workspace.Workspace, snapshots bool) error {
	began := time.Now()
	existed := ws.Dir.Exists()
	if err := ws.SetAside(p.ui.Say); err != nil {
		return err
	}
	l, err := assemble(ws, parts{})
	if err != nil {
		return err
	}
	if _, err := l.docker.Info(ctx); err != nil {
		if !existed { // no lab, no engine: nothing is left to remove
			if err := ws.Dir.Remove(); err != nil {
				return err
			}
			return p.ui.Down(ui.DownResult{Lab: ws.Name}, time.Since(began))
		}
		return &lab.Error{
			Exit: lab.ExitFailed, Code: "no_engine", Message: "the docker engine does not answer, so the lab's containers cannot be removed",
			Cure: "start it and run lab down again", Err: err,
		}
	}
	r, err := l.core.Remove(ctx, up.DownOptions{Existed: existed, Snapshots: snapshots}, p.ui.Say)
	if err != nil {
		return err
	}
	if len(r.Kept) > 0 {
		p.ui.Say("kept: snapshot " + strings.Join(r.Kept, ", ") + "; " + ws.OnEstate("lab up --from "+r.Kept[0]) + " begins with it, " + ws.Command("lab down --snapshots") + " removes")
	}
	return p.ui.Down(ui.DownResult{Lab: ws.Name, Removed: r.Removed, Kept: r.Kept}, time.Since(began))
}
