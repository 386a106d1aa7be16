package cli

import (
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab/ui"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

// loseFlag is the consent to the loss of what exists only in the forge.
var loseFlag = &cli.BoolFlag{Name: "lose-commits", Usage: "lose what exists only in the forge: others' commits, branches, pull requests, issues and the like"}

// consent returns the consent to that loss; line is the command line that asks for it.
func (p *program) consent(c *cli.Context, ws *workspace.Workspace, line string) up.Consent {
	return up.Consent{Given: c.Bool("lose-commits"), Ask: p.ui.Ask, By: ws.OnEstate(line) + " --lose-commits"}
}

// assembleToLose assembles a lab whose forge is lost. Its estate, which may be invalid or gone, has what need not be kept; it may be the only record of attached
// clusters.
func (p *program) assembleToLose(ws *workspace.Workspace) (*instance, error) {
	own := ws
	if from := ws.Record.Estate; from != "" && from != ws.Estate.Dir {
		if other, err := workspace.Open(workspace.Options{Name: ws.Name, Estate: from, Embedded: p.env.Estate}); err == nil {
			own = other
		}
	}
	est, _ := own.Load()
	l, err := assemble(ws, parts{estate: est, leaving: true})
	if err == nil && own.Followed() {
		l.core.Files = workingTree(own)
	}
	return l, err
}

// onlyInForge converts what only the forge has.
func onlyInForge(o up.Losing) ui.OnlyInForge {
	res := ui.OnlyInForge{Unknown: o.Unknown, Repositories: o.Repositories, Summary: o.String()}
	for _, c := range o.Commits {
		res.Commits = append(res.Commits, ui.ForgeCommit{
			Repository: c.Repository, Branch: c.Branch, Commit: c.Hash, Author: c.Author, Time: c.When.UTC().Truncate(time.Second), Message: c.Message, Files: c.Files,
		})
	}
	for _, r := range o.Requests {
		res.PullRequests = append(res.PullRequests, ui.ForgeRequest{Repository: r.Repository, Number: r.Number, Title: r.Title, Author: r.Author})
	}
	for _, i := range o.Items {
		res.Items = append(res.Items, ui.ForgeItem{Kind: i.Kind, Repository: i.Repository, Title: i.Title, Author: i.Author})
	}
	return res
}
