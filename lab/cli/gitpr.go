package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/docker"
	"homelab/lab/forge"
	"homelab/lab/forge/pulls"
	"homelab/lab/regular"
	"homelab/lab/state"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

var (
	repositoryFlag = &cli.StringFlag{Name: "repository", Usage: "`REPOSITORY` of the forge; default: the estate's"}
	botFlag        = &cli.BoolFlag{Name: "bot", Usage: "act as the bot, see lab git bot"}
	bodyFlag       = &cli.StringFlag{Name: "body", Usage: "`TEXT` in Markdown"}
	bodyFileFlag   = &cli.StringFlag{Name: "body-file", Usage: "`FILE` with the text"}
)

func (p *program) requestCommand() *cli.Command {
	common := []cli.Flag{nameFlag, estateFlag, outputFlag, repositoryFlag}
	flags := func(more ...cli.Flag) []cli.Flag { return append(append([]cli.Flag(nil), common...), more...) }
	// about returns the action of a command about one request.
	about := func(check func(*cli.Context) error, do func(c *cli.Context, a asked) error) cli.ActionFunc {
		return p.labAction(p.existing, func(c *cli.Context) error {
			if _, err := requestNumber(c); err != nil {
				return err
			}
			return check(c)
		}, func(c *cli.Context, ws *workspace.Workspace) error {
			a, err := p.ask(c, ws)
			if err != nil {
				return err
			}
			return do(c, a)
		})
	}
	return &cli.Command{
		Name:  "pr",
		Usage: "pull requests on the lab's Git server",
		Description: "Titles, bodies and comments are shown without control characters. An open pull request and its branch exist only in the forge: lab down asks before it " +
			"removes them.",
		Subcommands: []*cli.Command{
			p.openRequestCommand(flags),
			{
				Name:        "ls",
				Usage:       "list pull requests, newest first",
				Description: examples("lab git pr ls", "lab git pr ls --state all", "lab git pr ls -o json"),
				Flags:       flags(&cli.StringFlag{Name: "state", Usage: "`STATE`: open, merged, closed or all", Value: string(pulls.Open)}),
				Action: p.labAction(p.existing, func(c *cli.Context) error {
					if err := argv.OneOf(c, "state", requestStates()...); err != nil {
						return err
					}
					return argv.NoArgs(c)
				}, func(c *cli.Context, ws *workspace.Workspace) error { return p.listRequests(c, ws) }),
			},
			{
				Name:        "view",
				Usage:       "print a pull request with its statuses and comments",
				ArgsUsage:   "REQUEST",
				Description: examples("lab git pr view 3", "lab git pr view 3 -o json"),
				Flags:       flags(),
				Action:      about(argv.AnyArgs, p.viewRequest),
			},
			{
				Name:        "comment",
				Usage:       "comment on a pull request",
				ArgsUsage:   "REQUEST",
				Description: examples(`lab git pr comment 3 --body "what does it cost?"`, `lab git pr comment 3 --bot --body-file review.md`),
				Flags:       flags(bodyFlag, bodyFileFlag, botFlag),
				Action: about(argv.AnyArgs, func(c *cli.Context, a asked) error {
					text, err := bodyOf(c)
					if err != nil {
						return err
					}
					return p.onRequest(c, a, "commented on", func(ctx context.Context, r *pulls.Repository) (bool, error) {
						_, err := r.Comment(ctx, a.number, text)
						return true, err
					})
				}),
			},
			{
				Name:        "status",
				Usage:       "set the status of a check on a pull request's commit",
				ArgsUsage:   "REQUEST",
				Description: examples(`lab git pr status 3 --check lab/diff --state success --description "2 objects change"`, "lab git pr status 3 --bot --check lab/lint --state failure"),
				Flags: flags(
					&cli.StringFlag{Name: "check", Usage: "`CHECK`, like lab/diff"}, &cli.StringFlag{Name: "state", Usage: "`VERDICT`: " + listed(pulls.Verdicts())},
					&cli.StringFlag{Name: "description", Usage: "one line of `TEXT`"}, &cli.StringFlag{Name: "url", Usage: "`ADDRESS` of details"}, botFlag,
				),
				Action: about(func(c *cli.Context) error {
					if c.String("check") == "" || c.String("state") == "" {
						return argv.UsageError(c, errors.New("lab git pr status takes --check and --state"), true)
					}
					return argv.OneOf(c, "state", wordsOf(pulls.Verdicts())...)
				}, func(c *cli.Context, a asked) error {
					s := pulls.Status{Context: c.String("check"), State: pulls.Verdict(c.String("state")), Description: c.String("description"), URL: c.String("url")}
					return p.onRequest(c, a, s.Context+" is "+string(s.State)+" for", func(ctx context.Context, r *pulls.Repository) (bool, error) {
						q, err := r.Get(ctx, a.number)
						if err != nil {
							return false, err
						}
						return true, r.SetStatus(ctx, q.Commit, s)
					})
				}),
			},
			{
				Name:      "merge",
				Usage:     "merge a pull request and delete its branch",
				ArgsUsage: "REQUEST",
				Description: "Engines sync the result at once; lab git pull brings it into the working tree. A pull request that conflicts is refused.\n\n" +
					examples("lab git pr merge 3", "lab git pr merge 3 --style squash --keep-branch"),
				Flags: flags(
					&cli.StringFlag{Name: "style", Usage: "`STYLE`: " + listed(pulls.Styles()), Value: string(pulls.MergeCommit)},
					&cli.StringFlag{Name: "commit", Usage: "merge only if its head is `COMMIT`, as reviewed"}, &cli.BoolFlag{Name: "keep-branch", Usage: "do not delete its branch"},
				),
				Action: about(func(c *cli.Context) error { return argv.OneOf(c, "style", wordsOf(pulls.Styles())...) }, func(c *cli.Context, a asked) error {
					m := pulls.Merging{Style: pulls.Style(c.String("style")), Commit: c.String("commit"), Keep: c.Bool("keep-branch")}
					err := p.onRequest(c, a, "merged", func(ctx context.Context, r *pulls.Repository) (bool, error) {
						_, merged, err := r.Merge(ctx, a.number, m)
						return merged, err
					})
					if err == nil && !p.ui.WantsJSON() && a.repository == forge.Repository {
						p.ui.Print("next: " + a.ws.OnEstate("lab git pull"))
					}
					return err
				}),
			},
			{
				Name:        "close",
				Usage:       "close a pull request without merging it",
				ArgsUsage:   "REQUEST",
				Description: examples("lab git pr close 3", "lab git pr close 3 --remove-branch"),
				Flags:       flags(&cli.BoolFlag{Name: "remove-branch", Usage: "delete its branch, too"}),
				Action: about(argv.AnyArgs, func(c *cli.Context, a asked) error {
					return p.onRequest(c, a, "closed", func(ctx context.Context, r *pulls.Repository) (bool, error) {
						closed, err := r.Close(ctx, a.number)
						if err != nil || !c.Bool("remove-branch") {
							return closed, err
						}
						q, err := r.Get(ctx, a.number)
						if err != nil || q.Fork != "" || q.State != pulls.Closed {
							return closed, err
						}
						removed, err := r.RemoveBranch(ctx, q.Head)
						return closed || removed, err
					})
				}),
			},
		},
	}
}

// asked is the pull request that a command is about.
type asked struct {
	ws         *workspace.Workspace
	lab        *instance
	repository string
	number     int64
}

// bodyOf returns the text of --body or --body-file.
func bodyOf(c *cli.Context) (string, error) {
	file := c.String("body-file")
	if file == "" {
		return c.String("body"), nil
	}
	if c.String("body") != "" {
		return "", argv.UsageError(c, errors.New("--body and --body-file exclude one another"), true)
	}
	text, err := regular.Read(file, pulls.TextLimit+1)
	if err != nil {
		return "", &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: err.Error(), Cure: "--body-file takes a file of text", Err: err}
	}
	return string(text), nil
}

// requestNumber reads 3 or #3.
func requestNumber(c *cli.Context) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimPrefix(c.Args().First(), "#"), 10, 64)
	if c.NArg() != 1 || err != nil || n < 1 {
		return 0, &lab.Error{
			Exit: lab.ExitInvalid, Code: "usage", Message: c.Command.HelpName + " takes the number of a pull request", Cure: "lab git pr ls lists them",
		}
	}
	return n, nil
}

// ask finds the repository that a command is about.
func (p *program) ask(c *cli.Context, ws *workspace.Workspace) (a asked, err error) {
	a.ws = ws
	if c.NArg() > 0 {
		if a.number, err = requestNumber(c); err != nil {
			return a, err
		}
	}
	if a.repository, err = ws.Served(c.String("repository")); err != nil {
		return a, err
	}
	a.lab, err = withForge(c.Context, ws)
	return a, err
}

func (p *program) listRequests(c *cli.Context, ws *workspace.Workspace) error {
	a, err := p.ask(c, ws)
	if err != nil {
		return err
	}
	var list []pulls.Request
	err = a.lab.gitea.Pulls(c.Context, a.repository, "the pull requests", false, func(ctx context.Context, r *pulls.Repository) (err error) {
		list, err = r.List(ctx, pulls.State(c.String("state")))
		return err
	})
	if err != nil {
		return err
	}
	var res ui.RequestList
	for _, q := range list {
		res.Requests = append(res.Requests, requestResult(q))
	}
	return p.ui.Requests(res, "no pull request is "+c.String("state"))
}

func (p *program) viewRequest(c *cli.Context, a asked) error {
	var res ui.RequestView
	err := a.lab.gitea.Pulls(c.Context, a.repository, "the pull request", false, func(ctx context.Context, r *pulls.Repository) error {
		q, err := r.Get(ctx, a.number)
		if err != nil {
			return err
		}
		res.Request, res.Body = requestResult(q), q.Body
		statuses, err := r.Statuses(ctx, q.Commit)
		if err != nil {
			return err
		}
		for _, s := range statuses {
			res.Statuses = append(res.Statuses, ui.RequestStatus{
				Check: s.Context, State: string(s.State), Description: s.Description, URL: s.URL, Author: s.Author, Time: s.When,
			})
		}
		comments, err := r.Comments(ctx, a.number)
		for _, c := range comments {
			res.Comments = append(res.Comments, ui.RequestComment{Author: c.Author, Created: c.Created, Updated: c.Updated, Body: c.Body})
		}
		return err
	})
	if err != nil {
		return err
	}
	return p.ui.Request(res)
}

// onRequest changes a pull request and prints how it is afterwards.
func (p *program) onRequest(c *cli.Context, a asked, did string, change func(ctx context.Context, r *pulls.Repository) (bool, error)) error {
	var request pulls.Request
	changed := false
	err := p.ui.Narrate(func(progress lab.Progress) error {
		if c.Command.Name == "merge" { // Gitea looks for conflicts first
			progress(fmt.Sprintf("merging pull request #%d", a.number))
		}
		return a.lab.gitea.Pulls(c.Context, a.repository, fmt.Sprintf("pull request #%d", a.number), c.Bool("bot"), func(ctx context.Context, r *pulls.Repository) (err error) {
			if changed, err = change(ctx, r); err != nil {
				return err
			}
			request, err = r.Get(ctx, a.number)
			return err
		})
	})
	if err != nil {
		return err
	}
	if !changed {
		did = "already " + string(request.State) + ":"
	}
	return p.requestChanged(a, request, changed, did)
}

func (p *program) requestChanged(a asked, q pulls.Request, changed bool, did string) error {
	line := fmt.Sprintf("%s #%d %s (%s -> %s)", did, q.Number, q.Title, q.Head, q.Base)
	return p.ui.RequestChanged(ui.RequestResult{Request: requestResult(q), Changed: changed}, line)
}

func requestResult(q pulls.Request) ui.Request {
	return ui.Request{
		Repository: q.Repository, Number: q.Number, Title: q.Title, Author: q.Author, State: string(q.State), Head: q.Head, Base: q.Base, Fork: q.Fork, Commit: q.Commit,
		BaseCommit: q.Onto, MergeCommit: q.Merge, Mergeable: q.Mergeable, Draft: q.Draft, Created: q.Created, Updated: q.Updated,
	}
}

func requestStates() []string {
	return wordsOf([]pulls.State{pulls.Open, pulls.Merged, pulls.Closed, pulls.All})
}

// wordsOf returns words as strings.
func wordsOf[T ~string](words []T) []string {
	var list []string
	for _, w := range words {
		list = append(list, string(w))
	}
	return list
}

func listed[T ~string](words []T) string {
	list := wordsOf(words)
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}

// openNumbers returns the numbers of the open pull requests of a lab's estate, for shells.
func openNumbers(labName string) (numbers []string) {
	dir, err := state.Open(labName)
	if err != nil || !dir.Exists() {
		return nil
	}
	creds, err := dir.Credentials()
	if err != nil {
		return nil
	}
	const within = 2 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	g := forge.NewGitea(labName, docker.New(), forge.Credentials{User: creds.ForgeUser, Password: creds.ForgePassword})
	err = g.Pulls(ctx, "", "the pull requests", false, func(ctx context.Context, r *pulls.Repository) error {
		list, err := r.List(ctx, pulls.Open)
		for _, q := range list {
			numbers = append(numbers, strconv.FormatInt(q.Number, 10))
		}
		return err
	})
	if err != nil {
		return nil
	}
	return numbers
}
