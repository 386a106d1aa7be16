package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"

	"homelab/lab/argv"
	"homelab/lab/forge"
	"homelab/lab/forge/pulls"
	"homelab/lab/workspace"
)

// checkProposal checks what is known without a lab.
func checkProposal(c *cli.Context) error {
	if err := argv.NoArgs(c); err != nil {
		return err
	}
	if c.String("branch") != "" && c.String("head") != "" {
		return argv.UsageError(c, errors.New("--branch is pushed to and --head is not: give one of them"), true)
	}
	if c.String("repository") != "" && c.String("head") == "" {
		return argv.UsageError(c, errors.New("lab pushes the estate alone: give a branch of the repository with --head"), true)
	}
	proposal, err := proposalOf(c)
	if err != nil {
		return err
	}
	return proposal.Check()
}

// proposalOf reads the flags of lab git pr open.
func proposalOf(c *cli.Context) (pulls.Proposal, error) {
	title := strings.TrimSpace(c.String("title"))
	body, err := bodyOf(c)
	return pulls.Proposal{
		Title: title, Body: body, Head: cmp.Or(c.String("head"), c.String("branch"), branchFor(title)), Base: cmp.Or(c.String("base"), forge.Branch),
	}, err
}

var notInBranch = regexp.MustCompile(`[^a-z0-9]+`)

// branchFor returns the name of a branch for a title.
func branchFor(title string) string {
	const most = 50
	slug := strings.Trim(notInBranch.ReplaceAllString(strings.ToLower(title), "-"), "-")
	if len(slug) > most {
		slug = strings.Trim(slug[:most], "-")
	}
	if slug == "" { // no Latin letters
		slug = fmt.Sprintf("%x", sha256.Sum256([]byte(title)))[:12]
	}
	return "pr/" + slug
}

func (p *program) openRequest(c *cli.Context, ws *workspace.Workspace) error {
	proposal, err := proposalOf(c)
	if err != nil {
		return err
	}
	a, err := p.ask(c, ws)
	if err != nil {
		return err
	}
	own := c.String("head") == ""
	if err := ws.Ours(); own && err != nil {
		return err
	}
	var request pulls.Request
	changed := false
	err = ws.Locked(c.Context, func(ctx context.Context) error {
		if own {
			res, err := a.lab.gitea.Propose(ctx, workingTree(ws), proposal.Head, proposal.Title)
			if err != nil {
				return err
			}
			changed = res.Pushed
		}
		var opened bool
		request, opened, err = a.lab.gitea.OpenRequest(ctx, a.repository, proposal, c.Bool("bot"))
		changed = changed || opened
		return err
	})
	if err != nil {
		return err
	}
	did := "opened"
	if !changed {
		did = "open already:"
	}
	return p.requestChanged(a, request, changed, did)
}

// openRequestCommand is lab git pr open; flags adds to those of all commands of pull requests.
func (p *program) openRequestCommand(flags func(...cli.Flag) []cli.Flag) *cli.Command {
	return &cli.Command{
		Name:  "open",
		Usage: "push the working tree's changes to a branch of the forge, and open a pull request",
		Description: "The branch that engines follow and the branches of your clone stay as they are, and so does the working tree: the next lab up would push it to main.\n" +
			"Again with the same branch, the changes since are added to the pull request. With --head, a branch that the forge has is taken as it is.\n\n" +
			examples(`lab git pr open --title "three replicas"`, `lab git pr open --title "three replicas" --branch replicas`, `lab git pr open --title "from a clone" --head replicas`),
		Flags: flags(
			&cli.StringFlag{Name: "title", Usage: "`TITLE`; with a new branch also the commit's message"}, bodyFlag, bodyFileFlag,
			&cli.StringFlag{Name: "branch", Usage: "`BRANCH` of the forge to push to; default: pr/ and the title"},
			&cli.StringFlag{Name: "head", Usage: "existing `BRANCH` of the forge; nothing is pushed"},
			&cli.StringFlag{Name: "base", Usage: "`BRANCH` to merge into; default: the one that engines follow"}, botFlag,
		),
		Action: p.labAction(p.existing, checkProposal, func(c *cli.Context, ws *workspace.Workspace) error { return p.openRequest(c, ws) }),
	}
}
