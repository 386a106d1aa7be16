package cli

import (
	"context"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/plan"
	"homelab/lab/ui"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

func (p *program) downCommand() *cli.Command {
	return &cli.Command{
		Name:  "down",
		Usage: "remove the lab: its clusters, forge, network, volumes and files, and nothing else",
		Description: "Other labs, and resources of yours or of kind, are kept. Images and charts stay for the next lab up, in the cache and in\n" +
			"volumes lab-seed-*, and snapshots for lab up --from.\n\n" +
			"Commits, branches, pull requests, issues, releases, wikis and repositories of others that exist only in the forge are listed, and lost only after confirmation on the terminal, or with --lose-commits.\n\n" +
			examples("lab down", "lab down --dry-run", "lab down --snapshots", "lab down --name demo", "lab down -o json"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag, &cli.BoolFlag{Name: "snapshots", Usage: "also remove its snapshots"}, &cli.BoolFlag{Name: "dry-run", Usage: "print what would be removed, and touch nothing"},
			loseFlag,
			&cli.StringSliceFlag{Name: "abandon", Usage: "leave the lab's objects in these existing `CLUSTERS`, for example because they do not answer"},
		},
		Action: p.labAction(p.open, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
			o := up.DownOptions{Snapshots: c.Bool("snapshots"), Abandon: c.StringSlice("abandon"), Lose: p.consent(c, ws, "lab down")}
			if c.Bool("dry-run") {
				return p.leaving(c.Context, ws, o)
			}
			return ws.LockedToDelete(c.Context, func(ctx context.Context) error { return p.down(ctx, ws, o) })
		}),
	}
}

// leaving prints the plan of lab down.
func (p *program) leaving(ctx context.Context, ws *workspace.Workspace, o up.DownOptions) error {
	l, err := p.assembleToLose(ws)
	if err != nil {
		return err
	}
	if err := l.docker.Answers(ctx); err != nil {
		return err
	}
	steps, losing, err := l.core.Leaving(ctx, o)
	if err != nil {
		return err
	}
	for _, line := range losing.Lines() {
		p.ui.Println("only in the forge: " + line)
	}
	if o.Snapshots {
		lines, err := l.core.Shelved(ctx)
		if err != nil {
			return err
		}
		for _, line := range lines {
			p.ui.Println("only in snapshots: " + line)
		}
	}
	return p.ui.Plan(ws.Name, steps, nil, onlyInForge(losing), plan.String(steps), ui.Asks{})
}

func (p *program) down(ctx context.Context, ws *workspace.Workspace, o up.DownOptions) error {
	began := time.Now()
	o.Existed = ws.Dir.Exists()
	if err := ws.SetAside(p.ui.Println); err != nil {
		return err
	}
	l, err := p.assembleToLose(ws)
	if err != nil {
		return err
	}
	r, err := l.core.Remove(ctx, o, p.ui.Println)
	res, notes := downResult(ws, r)
	for _, line := range notes {
		p.ui.Println(line)
	}
	if err != nil {
		return err
	}
	return p.ui.Down(res, time.Since(began))
}

// downResult converts a removal, with notes about remaining parts.
func downResult(ws *workspace.Workspace, r up.Removal) (ui.DownResult, []string) {
	var notes []string
	for _, s := range r.Stays {
		notes = append(notes, "left behind: "+s)
	}
	if len(r.Kept) > 0 {
		notes = append(notes, "kept: snapshot "+strings.Join(r.Kept, ", ")+"; "+ws.OnEstate("lab up --from "+lab.Quote(r.Kept[0]))+" restores it, "+ws.Command("lab down --snapshots")+" removes it")
	}
	return ui.DownResult{Lab: ws.Name, Removed: r.Removed, Kept: r.Kept, Stays: r.Stays}, notes
}
