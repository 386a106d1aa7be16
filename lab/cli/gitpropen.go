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

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/forge"
	"homelab/lab/forge/pulls"
	"homelab/lab/regular"
	"homelab/lab/workspace"
)

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
