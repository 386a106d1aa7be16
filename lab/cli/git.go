package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab/argv"
	"homelab/lab/forge"
	"homelab/lab/ui"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

func (p *program) gitCommand() *cli.Command {
	return &cli.Command{
		Name:  "git",
		Usage: "the lab's Git server",
		Subcommands: []*cli.Command{
			{
				Name:      "url",
				Usage:     "print the address of the estate's repository, or of a mirror, for this machine",
				ArgsUsage: "[REPOSITORY]",
				Description: examples("git clone $(lab git url --credentials)", "git pull $(lab git url --credentials) main", "git clone $(lab git url --credentials gitops)") +
					"\n\nREPOSITORY is one of spec.repositories, by the last element of its URL. All repositories are private: without --credentials, Git asks for the user and password of `lab creds`. " +
					"With --credentials the address contains the password: use it in commands, not in files.",
				Flags: []cli.Flag{nameFlag, estateFlag, outputFlag, &cli.BoolFlag{Name: "credentials", Usage: "include user and password in the address"}},
				Action: p.labAction(p.existing, argv.AnyArgs, func(c *cli.Context, ws *workspace.Workspace) error {
					return p.gitURL(c.Context, ws, strings.Join(c.Args().Slice(), " "), c.Bool("credentials"))
				}),
			},
			{
				Name:        "push",
				Usage:       "commit the estate's working tree to the forge, and nothing more",
				Description: "Commits made by others in the forge are never overwritten: run lab git pull first.\n\n" + examples("lab git push", `lab git push -m "three replicas"`),
				Flags: []cli.Flag{
					nameFlag, estateFlag, outputFlag,
					&cli.StringFlag{Name: "message", Aliases: []string{"m"}, Usage: "commit `MESSAGE`", Value: "estate: lab git push"},
				},
				Action: p.labAction(p.existing, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
					if err := ws.Ours(); err != nil {
						return err
					}
					return ws.Locked(c.Context, func(ctx context.Context) error { return p.gitPush(ctx, ws, c.String("message")) })
				}),
			},
			p.pullCommand(),
			p.requestCommand(),
			p.botCommand(),
			p.createRepositoryCommand(),
			{
				Name:        "log",
				Usage:       "print the forge's commits, newest first",
				Description: examples("lab git log", "lab git log -n 3 -o json"),
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "name", Usage: nameFlag.Usage, EnvVars: nameFlag.EnvVars}, estateFlag, outputFlag,
					&cli.IntFlag{Name: "number", Aliases: []string{"n"}, Usage: "at most `N` commits", Value: 20},
				},
				Action: p.labAction(p.existing, func(c *cli.Context) error {
					if n := c.Int("number"); n < 1 {
						return argv.UsageError(c, fmt.Errorf("--number takes 1 or more, got %d", n), true)
					}
					return argv.NoArgs(c)
				}, func(c *cli.Context, ws *workspace.Workspace) error {
					return p.gitLog(c.Context, ws, c.Int("number"))
				}),
			},
		},
	}
}

// withForge assembles a lab whose forge is running.
func withForge(ctx context.Context, ws *workspace.Workspace) (*instance, error) {
	l, err := assemble(ws, parts{})
	if err != nil {
		return nil, err
	}
	seen, err := l.gitea.Observe(ctx)
	if err != nil {
		return nil, err
	}
	return l, seen.Ready(ws.Name, ws.Command("lab up"))
}

func (p *program) gitURL(ctx context.Context, ws *workspace.Workspace, repository string, credentials bool) error {
	name, err := ws.Served(repository)
	if err != nil {
		return err
	}
	l, err := withForge(ctx, ws)
	if err != nil {
		return err
	}
	address := l.core.RepositoryURL(name, credentials)
	return p.ui.Result(ui.URLResult{URL: address}, address)
}

func (p *program) gitPush(ctx context.Context, ws *workspace.Workspace, message string) error {
	l, err := withForge(ctx, ws)
	if err != nil {
		return err
	}
	if err := l.gitea.Settled(workingTree(ws)); err != nil { // before the estate is reported as invalid
		return err
	}
	if l.core.Estate, err = ws.Load(); err != nil {
		return err
	}
	res, err := l.gitea.Push(ctx, l.core.Tree(), message)
	if err != nil {
		return err
	}
	return p.ui.Pushed(ui.PushResult{Commit: res.Commit, Changed: res.Pushed}, up.Summary(res.Changed))
}

func (p *program) gitLog(ctx context.Context, ws *workspace.Workspace, number int) error {
	l, err := withForge(ctx, ws)
	if err != nil {
		return err
	}
	commits, err := l.gitea.Log(ctx, number)
	if err != nil {
		return err
	}
	return p.ui.Log(logResult(commits))
}

// logResult lists the forge's commits.
func logResult(commits []forge.Commit) ui.LogResult {
	var res ui.LogResult
	for _, k := range commits {
		res.Commits = append(res.Commits, ui.LogCommit{Commit: k.Hash, Author: k.Author, Time: k.When.UTC().Truncate(time.Second), Message: k.Message})
	}
	return res
}
