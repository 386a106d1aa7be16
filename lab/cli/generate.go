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
		Usage: "write the manifests that lead Flux to each cluster's addons",
		Description: "cluster.yaml selects a cluster's addons. Flux reads that selection from Git: clusters/NAME/flux.yaml and the files it refers to.\n" +
			"Files not written by lab are never replaced. lab up reports stale ones.\n\n" +
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
