package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/forge"
	"homelab/lab/state"
	"homelab/lab/ui"
	"homelab/lab/up"
)

func (p *program) pullCommand() *cli.Command {
	return &cli.Command{
		Name:  "pull",
		Usage: "bring what others committed in the forge into the estate's working tree",
		Description: "What they alone changed is taken, what both sides changed is merged line by line. What cannot be merged gets conflict markers, or the\n" +
			"forge's file is put beside yours as FILE.forge; nothing is overwritten. In a Git repository, what was pulled is committed to your branch,\n" +
			"and nothing of what you have not committed.\n\n" + examples("lab git pull", "lab git pull --dry-run", "lab git pull -o json"),
		Flags: []cli.Flag{nameFlag, estateFlag, outputFlag, &cli.BoolFlag{Name: "dry-run", Usage: "print what would be done and do nothing"}},
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			s, err := p.existing(c)
			if err != nil {
				return err
			}
			if s.estate.dir == "" {
				return &lab.Error{
					Exit: lab.ExitFailed, Code: "embedded", Message: "the built-in estate cannot be changed: there is no folder to pull into",
					Cure: "lab init DIR writes it out",
				}
			}
			if err := s.ours(); err != nil {
				return err
			}
			if c.Bool("dry-run") {
				return p.pull(c, c.Context, true)
			}
			return s.locked(c.Context, func(ctx context.Context) error { return p.pull(c, ctx, false) })
		},
	}
}

// openForge is the lab's forge, whose pulls are remembered in the lab's state folder.
func (s *session) openForge(d *docker.Docker, creds state.Credentials) *forge.Gitea {
	return forge.NewGitea(s.name, d, forge.Credentials{User: creds.ForgeUser, Password: creds.ForgePassword},
		forge.WithPulls(s.dir, forge.Commands{Pull: s.onEstate("lab git pull"), Up: s.onEstate("lab up")}))
}

// files is the estate's working tree, whether it is valid or not: conflicts of a pull may make it invalid, and a pull may cure it.
func (s *session) files() forge.Tree { return forge.Tree{FS: s.estate.fsys, Dir: s.estate.dir} }

func (p *program) pull(c *cli.Context, ctx context.Context, dry bool) error {
	w, err := p.forgeWorld(c)
	if err != nil {
		return err
	}
	res, err := w.gitea.Pull(ctx, w.files(), dry)
	if w.ui.WantsJSON() {
		if err != nil {
			return err
		}
		return w.ui.JSON(pullResult(res, dry))
	}
	if err == nil || len(res.Files) > 0 {
		w.pulled(res, dry)
	}
	if err == nil && !dry && len(res.Files) > 0 {
		w.ui.Print("next: " + w.onEstate("lab up"))
	}
	return err
}

// pulled prints what a pull did.
func (w *world) pulled(res forge.PullResult, dry bool) {
	if len(res.Files) == 0 {
		w.ui.Print("nothing to pull: the working tree has all that the forge has")
		return
	}
	commits, files := ui.Table{}, ui.Table{}
	for _, k := range res.Commits {
		commits.Rows = append(commits.Rows, []string{up.Abbreviate(k.Hash), k.Author, subject(k.Message)})
	}
	for _, f := range res.Files {
		files.Rows = append(files.Rows, []string{f.Did, f.Path, noteOf(f)})
	}
	w.ui.Table(commits)
	w.ui.Print("")
	w.ui.Table(files)
	w.ui.Print("")
	switch {
	case dry:
		w.ui.Print("dry run: nothing was written")
	case res.Committed != "":
		w.ui.Print("committed " + up.Abbreviate(res.Committed))
	case res.Reason != "":
		w.ui.Print("not committed: " + res.Reason)
		if res.Next != "" {
			w.ui.Print("  " + res.Next)
		}
	}
}

// noteOf is what there is to say about a pulled file.
func noteOf(f forge.PulledFile) string {
	switch {
	case f.Beside != "":
		return "theirs is in " + f.Beside + ": " + f.Note
	case len(f.Lines) == 1:
		return fmt.Sprintf("line %d", f.Lines[0])
	case len(f.Lines) > 1:
		return "lines " + strings.Trim(strings.ReplaceAll(fmt.Sprint(f.Lines), " ", ", "), "[]")
	}
	return f.Note
}

func subject(message string) string {
	line, _, _ := strings.Cut(message, "\n")
	return line
}

func pullResult(res forge.PullResult, dry bool) ui.PullResult {
	out := ui.PullResult{Commit: res.Commit, DryRun: dry, Committed: res.Committed, Reason: res.Reason, Next: res.Next}
	for _, k := range res.Commits {
		out.Commits = append(out.Commits, logCommit(k))
	}
	for _, f := range res.Files {
		out.Files = append(out.Files, ui.PullFile{Path: f.Path, Did: f.Did, Note: f.Note, Lines: f.Lines, Beside: f.Beside})
	}
	return out
}

func logCommit(k forge.Commit) ui.LogCommit {
	return ui.LogCommit{Commit: k.Hash, Author: k.Author, Time: k.When.UTC().Truncate(time.Second), Message: k.Message}
}
