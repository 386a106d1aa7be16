package cli

import (
	"fmt"
	"net/url"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/doctor"
	"homelab/lab/ui"
	"homelab/lab/up"
)

func (p *program) gitCommand() *cli.Command {
	return &cli.Command{
		Name:  "git",
		Usage: "the lab's Git server",
		Subcommands: []*cli.Command{
			{
				Name:  "url",
				Usage: "print the address of the estate's repository, as this machine reaches it",
				Description: examples("git clone $(lab git url --credentials)", "git pull $(lab git url) main") +
					"\n\nWith --credentials the address holds the password: it is for commands, not for files.",
				Flags: []cli.Flag{nameFlag, outputFlag, &cli.BoolFlag{Name: "credentials", Usage: "with user and password in the address"}},
				Action: func(c *cli.Context) error {
					w, err := p.forgeWorld(c)
					if err != nil {
						return err
					}
					u, err := url.Parse(w.forgeURL() + "/lab/estate.git")
					if err != nil {
						return fmt.Errorf("forge: %w", err)
					}
					if c.Bool("credentials") {
						u.User = url.UserPassword(w.Creds.ForgeUser, w.Creds.ForgePassword)
					}
					if p.ui.WantsJSON() {
						return p.ui.JSON(ui.URLResult{URL: u.String()})
					}
					p.ui.Print(u.String())
					return nil
				},
			},
			{
				Name:        "push",
				Usage:       "commit the estate's working tree to the forge, and do nothing else",
				Description: "Commits that others made in the forge are never overwritten: lab git pull brings them first.\n\n" + examples("lab git push", `lab git push -m "three replicas"`),
				Flags: []cli.Flag{
					nameFlag, estateFlag, outputFlag,
					&cli.StringFlag{Name: "message", Aliases: []string{"m"}, Usage: "commit `MESSAGE`", Value: "estate: lab git push"},
				},
				Action: func(c *cli.Context) error {
					s, err := p.existing(c)
					if err != nil {
						return err
					}
					if err := s.ours(); err != nil {
						return err
					}
					w, err := p.forgeWorld(c)
					if err != nil {
						return err
					}
					return w.push(c)
				},
			},
			p.pullCommand(),
			{
				Name:        "log",
				Usage:       "print the forge's commits, newest first",
				Description: examples("lab git log", "lab git log -n 3 -o json"),
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "name", Usage: nameFlag.Usage, EnvVars: nameFlag.EnvVars}, outputFlag,
					&cli.IntFlag{Name: "number", Aliases: []string{"n"}, Usage: "at most `N` commits", Value: 20},
				},
				Action: func(c *cli.Context) error {
					if n := c.Int("number"); n < 1 {
						return usageError(c, fmt.Errorf("--number takes 1 or more, got %d", n), true)
					}
					w, err := p.forgeWorld(c)
					if err != nil {
						return err
					}
					return w.log(c)
				},
			},
		},
	}
}

// forgeWorld opens a lab whose forge runs.
func (p *program) forgeWorld(c *cli.Context) (*world, error) {
	if err := noArgs(c); err != nil {
		return nil, err
	}
	s, err := p.existing(c)
	if err != nil {
		return nil, err
	}
	w, err := s.openWorld(nil, doctor.Traits{})
	if err != nil {
		return nil, err
	}
	seen, err := w.gitea.Observe(c.Context)
	if err != nil {
		return nil, err
	}
	if !seen.Running {
		return nil, &lab.Error{Exit: lab.ExitFailed, Code: "no_forge", Message: "the forge of lab " + s.name + " does not run", Cure: w.command("lab up") + " starts it"}
	}
	if !seen.Prepared {
		return nil, &lab.Error{Exit: lab.ExitFailed, Code: "no_forge", Message: "the forge of lab " + s.name + " is not ready", Cure: w.command("lab up") + " repairs it"}
	}
	return w, nil
}

func (w *world) push(c *cli.Context) error {
	if err := w.gitea.Settled(w.files()); err != nil { // else the estate would be called invalid
		return err
	}
	est, err := w.load()
	if err != nil {
		return err
	}
	w.Estate = est
	res, err := w.gitea.Push(c.Context, w.Tree(), c.String("message"))
	if err != nil {
		return err
	}
	if w.ui.WantsJSON() {
		return w.ui.JSON(ui.PushResult{Commit: res.Commit, Changed: res.Pushed})
	}
	if !res.Pushed {
		w.ui.Print("the forge has this tree already: " + up.Abbreviate(res.Commit))
		return nil
	}
	w.ui.Print("pushed " + up.Abbreviate(res.Commit) + ": " + up.Summary(res.Changed))
	return nil
}

func (w *world) log(c *cli.Context) error {
	commits, err := w.gitea.Log(c.Context, c.Int("number"))
	if err != nil {
		return err
	}
	if w.ui.WantsJSON() {
		var res ui.LogResult
		for _, k := range commits {
			res.Commits = append(res.Commits, logCommit(k))
		}
		return w.ui.JSON(res)
	}
	t := ui.Table{}
	for _, k := range commits {
		t.Rows = append(t.Rows, []string{up.Abbreviate(k.Hash), k.When.Local().Format(time.DateTime), k.Author, k.Message})
	}
	w.ui.Table(t)
	return nil
}
