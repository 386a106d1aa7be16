package cli

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/urfave/cli/v2"

	"homelab/lab/argv"
	"homelab/lab/forge"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

func (p *program) botCommand() *cli.Command {
	return &cli.Command{
		Name:      "bot",
		Usage:     "print the address of a repository for the bot: an account for jobs and scripts",
		ArgsUsage: "[REPOSITORY]",
		Description: "The first call creates the account. On repositories that it was asked for, it may push branches, open pull requests, comment and set statuses. It can neither merge\n" +
			"nor push to the branch that engines follow, which is protected from then on, nor see other repositories.\n" +
			"With --credentials the address contains the token: use it in commands, not in files.\n\n" +
			examples("lab git bot", "git clone $(lab git bot --credentials)", "lab git bot --credentials -o json"),
		Flags: []cli.Flag{nameFlag, estateFlag, outputFlag, &cli.BoolFlag{Name: "credentials", Usage: "include user and token in the address"}},
		Action: p.labAction(p.existing, argv.Count("one repository at most", func(n int) bool { return n < 2 }), func(c *cli.Context, ws *workspace.Workspace) error {
			return p.bot(c, ws)
		}),
	}
}

func (p *program) bot(c *cli.Context, ws *workspace.Workspace) error {
	repository, err := ws.Served(c.Args().First())
	if err != nil {
		return err
	}
	l, err := withForge(c.Context, ws)
	if err != nil {
		return err
	}
	var a forge.Account
	if err := ws.Locked(c.Context, func(ctx context.Context) (err error) { // it saves the token
		a, err = l.gitea.Bot(ctx, repository)
		return err
	}); err != nil {
		return err
	}
	res, err := addressed(l, repository, a, c.Bool("credentials"))
	if err != nil {
		return err
	}
	return p.ui.Result(res, res.URL)
}

// addressed returns the addresses of a repository for an account.
func addressed(l *instance, repository string, a forge.Account, credentials bool) (ui.BotResult, error) {
	u, err := url.Parse(l.core.RepositoryURL(repository, false))
	if err != nil {
		return ui.BotResult{}, err
	}
	api := url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/api/v1/repos" + strings.TrimSuffix(u.Path, ".git")}
	res := ui.BotResult{User: a.User, API: api.String()}
	if credentials {
		u.User, res.Token = url.UserPassword(a.User, a.Token), a.Token
	}
	res.URL = u.String()
	return res, nil
}

func (p *program) createRepositoryCommand() *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     "create a private repository on the forge, with credentials of its own",
		ArgsUsage: "REPOSITORY",
		Description: "Its account may read it, with --writes another one may also push to it. Neither sees another repository, and neither the engine nor the bot sees this one: give an engine the\n" +
			"credentials in a Secret. Again, the same are printed. With --credentials the address contains the token: use it in commands, not in files.\n\n" +
			examples("lab git create shop", "git clone $(lab git create shop --writes --credentials)"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag, &cli.BoolFlag{Name: "writes", Usage: "the account may push, too"},
			&cli.BoolFlag{Name: "credentials", Usage: "include user and token in the address"},
		},
		Action: p.labAction(p.existing, func(c *cli.Context) error {
			if c.NArg() != 1 {
				return argv.UsageError(c, errors.New("lab git create takes the name of a repository"), true)
			}
			return forge.CheckRepository(c.Args().First())
		}, func(c *cli.Context, ws *workspace.Workspace) error {
			l, err := withForge(c.Context, ws)
			if err != nil {
				return err
			}
			var a forge.Account
			created, name := false, c.Args().First()
			if err := ws.Locked(c.Context, func(ctx context.Context) (err error) { // it saves the token
				a, created, err = l.gitea.CreateRepository(ctx, name, c.Bool("writes"))
				return err
			}); err != nil {
				return err
			}
			res, err := addressed(l, name, a, c.Bool("credentials"))
			if err != nil {
				return err
			}
			return p.ui.Result(ui.CreatedResult{User: res.User, URL: res.URL, API: res.API, Token: res.Token, Changed: created}, res.URL)
		}),
	}
}
