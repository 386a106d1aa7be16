package cli

import (
	"fmt"
	"net/url"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/doctor"
	"homelab/lab/ui"
)

func (p *program) gitCommand() *cli.Command {
	return &cli.Command{
		Name:  "git",
		Usage: "the lab's Git server",
		Subcommands: []*cli.Command{
			{
				Name:  "url",
				Usage: "print the address of the estate's repository, as this machine reaches it",
				Description: examples("git clone $(lab git url --credentials)", "git pull $(lab git url --credentials) main") +
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
						u.User = url.UserPassword(w.creds.ForgeUser, w.creds.ForgePassword)
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
				Description: "Commits that others made in the forge are never overwritten.\n\n" + examples("lab git push", `lab git push -m "three replicas"`),
				Flags: []cli.Flag{
					nameFlag, estateFlag, outputFlag,
					&cli.StringFlag{Name: "message", Aliases: []string{"m"}, Usage: "commit `MESSAGE`", Value: "estate: lab git push"},
				},
				Action: func(c *cli.Context) error {
					w, err := p.forgeWorld(c)
					if err != nil {
						return err
					}
					return w.push(c)
				},
			},
			{
				Name:        "log",
				Usage:       "print the forge's commits, newest first",
				Description: examples("lab git log", "lab git log -n 3 -o json"),
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "name", Usage: nameFlag.Usage, EnvVars: nameFlag.EnvVars}, outputFlag,
					&cli.IntFlag{Name: "number", Aliases: []string{"n"}, Usage: "at most `N` commits", Value: 20},
				},
				Action: func(c *cli.Context) error {
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
	seen, err := w.forge.Observe(c.Context)
	if err != nil {
		return nil, err
	}
	if !seen.Running {
		return nil, &lab.Error{Exit: lab.ExitFailed, Code: "no_forge", Message: "the forge of lab " + s.name + " does not run", Cure: w.command("lab up") + " starts it"}
	}
	return w, nil
}

func (w *world) push(c *cli.Context) error {
	est, err := w.load()
	if err != nil {
		return err
	}
	w.est = est
	res, err := w.forge.Push(c.Context, w.tree(), c.String("message"))
	if err != nil {
		return err
	}
	if w.ui.WantsJSON() {
		return w.ui.JSON(ui.PushResult{Commit: res.Commit, Changed: res.Pushed})
	}
	if !res.Pushed {
		w.ui.Print("the forge has this tree already: " + abbreviate(res.Commit))
		return nil
	}
	w.ui.Print("pushed " + abbreviate(res.Commit) + ": " + told(res.Changed))
	return nil
}

func (w *world) log(c *cli.Context) error {
	commits, err := w.forge.Log(c.Context, c.Int("number"))
	if err != nil {
		return err
	}
	if w.ui.WantsJSON() {
		var res ui.LogResult
		for _, k := range commits {
			res.Commits = append(res.Commits, ui.LogCommit{Commit: k.Hash, Author: k.Author, Time: k.When.UTC(), Message: k.Message})
		}
		return w.ui.JSON(res)
	}
	t := ui.Table{}
	for _, k := range commits {
		t.Rows = append(t.Rows, []string{abbreviate(k.Hash), k.When.Local().Format(time.DateTime), k.Author, k.Message})
	}
	w.ui.Table(t)
	return nil
}
