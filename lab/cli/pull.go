package cli

import (
	"context"

	"github.com/urfave/cli/v2"

	"homelab/lab/argv"
	"homelab/lab/forge"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

func (p *program) pullCommand() *cli.Command {
	return &cli.Command{
		Name:  "pull",
		Usage: "merge commits made by others in the forge into the estate's working tree",
		Description: "Files changed on one side are taken from it; files changed on both are merged by line. A conflict is marked in the file, or the forge's version\n" +
			"is written next to yours as FILE.forge; nothing is overwritten. In a Git repository, the pulled changes are committed to your branch, and none\n" +
			"of your uncommitted ones.\n\n" + examples("lab git pull", "lab git pull --dry-run", "lab git pull -o json"),
		Flags: []cli.Flag{nameFlag, estateFlag, outputFlag, &cli.BoolFlag{Name: "dry-run", Usage: "print what would be done and do nothing"}},
		Action: p.labAction(p.existing, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
			return p.pull(c.Context, ws, c.Bool("dry-run"))
		}),
	}
}

func (p *program) pull(ctx context.Context, ws *workspace.Workspace, dry bool) error {
	if err := ws.Editable(); err != nil {
		return err
	}
	if err := ws.Ours(); err != nil {
		return err
	}
	if dry {
		return p.pullFiles(ctx, ws, true)
	}
	return ws.Locked(ctx, func(ctx context.Context) error { return p.pullFiles(ctx, ws, false) })
}

func (p *program) pullFiles(ctx context.Context, ws *workspace.Workspace, dry bool) error {
	l, err := withForge(ctx, ws)
	if err != nil {
		return err
	}
	res, err := l.gitea.Pull(ctx, workingTree(ws), dry)
	if err != nil && (p.ui.WantsJSON() || len(res.Files) == 0) {
		return err
	}
	if shown := p.ui.Pulled(pullResult(res, dry)); shown != nil || p.ui.WantsJSON() {
		return shown
	}
	if err == nil && !dry && len(res.Files) > 0 {
		p.ui.Print("next: " + ws.OnEstate("lab up"))
	}
	return err
}

// pullResult converts the result of a pull.
func pullResult(res forge.PullResult, dry bool) ui.PullResult {
	out := ui.PullResult{Commit: res.Commit, DryRun: dry, Commits: logResult(res.Commits).Commits, Committed: res.Committed, Reason: res.Reason, Next: res.Next}
	for _, f := range res.Files {
		out.Files = append(out.Files, ui.PullFile{Path: f.Path, Did: f.Did, Note: f.Note, Lines: f.Lines, Beside: f.Aside})
	}
	return out
}
