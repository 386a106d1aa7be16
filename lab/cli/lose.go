package cli

import (
	"github.com/urfave/cli/v2"

	"homelab/lab/up"
	"homelab/lab/workspace"
)

// loseFlag is the consent to the loss of what only the forge has.
var loseFlag = &cli.BoolFlag{Name: "lose-commits", Usage: "lose what only the forge has: commits, branches, pull requests and repositories of others"}

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
