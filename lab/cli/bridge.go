package cli

import (
	"github.com/urfave/cli/v2"

	"homelab/lab/argv"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

func (p *program) bridgeCommand() *cli.Command {
	return &cli.Command{
		Name:  "bridge",
		Usage: "the metadata of each cluster's registration",
		Subcommands: []*cli.Command{{
			Name:  "show",
			Usage: "print every label and annotation of the cluster Secrets, and the origin of each value",
			Description: "Works without a running lab: the bridge is computed from the estate alone.\n\n" +
				examples("lab bridge show", "lab bridge show --cluster prod", "lab bridge show --cluster prod -o json"),
			Flags: []cli.Flag{
				nameFlag, estateFlag, outputFlag,
				&cli.StringFlag{Name: "cluster", Usage: "show only `CLUSTER`"},
			},
			Action: p.labAction(p.open, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
				return p.showBridge(ws, c.String("cluster"))
			}),
		}, p.bridgeImportCommand(), p.bridgeDiffCommand()},
	}
}

func (p *program) showBridge(ws *workspace.Workspace, cluster string) error {
	est, err := ws.Load()
	if err != nil {
		return err
	}
	list, err := up.RegistrationsOf(ws.Name, est, cluster)
	if err != nil {
		return err
	}
	return p.ui.Bridge(ws.Name, list)
}
