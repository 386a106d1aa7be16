package cli

import (
	"github.com/urfave/cli/v2"

	"homelab/lab/argv"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

func (p *program) generateCommand() *cli.Command {
	return &cli.Command{
		Name:  "generate",
		Usage: "write the files with which Flux finds every cluster's addons",
		Description: "Which cluster has which addon is said in cluster.yaml. What Flux needs of that lies in Git: clusters/NAME/flux.yaml and what it leads to.\n" +
			"Files that lab did not write are never replaced. lab up says which are stale.\n\n" +
			examples("lab generate", "lab generate -o json"),
		Flags: []cli.Flag{estateFlag, outputFlag},
		Action: p.labAction(p.open, argv.NoArgs, func(_ *cli.Context, ws *workspace.Workspace) error {
			done, err := ws.Generate()
			if err != nil {
				return err
			}
			return p.ui.Generated(ui.GenerateResult{Written: done.Written, Removed: done.Removed})
		}),
	}
}
