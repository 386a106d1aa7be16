package cli

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

func (p *program) bridgeCommand() *cli.Command {
	return &cli.Command{
		Name:  "bridge",
		Usage: "what each cluster tells the engine of itself",
		Subcommands: []*cli.Command{{
			Name:  "show",
			Usage: "print every label and annotation of the cluster Secrets, and where each value came from",
			Description: "Works without a running lab: the bridge is computed from the estate alone.\n\n" +
				examples("lab bridge show", "lab bridge show --cluster prod", "lab bridge show --cluster prod -o json"),
			Flags: []cli.Flag{
				nameFlag, estateFlag, outputFlag,
				&cli.StringFlag{Name: "cluster", Usage: "show `CLUSTER` alone"},
			},
			Action: func(c *cli.Context) error {
				if err := noArgs(c); err != nil {
					return err
				}
				ws, err := p.open(c)
				if err != nil {
					return err
				}
				return p.showBridge(ws, c.String("cluster"))
			},
		}},
	}
}

func (p *program) showBridge(ws *workspace.Workspace, cluster string) error {
	est, err := ws.Load()
	if err != nil {
		return err
	}
	var list []lab.Registration
	for _, r := range up.Registrations(ws.Name, est) {
		if cluster == "" || r.Cluster == cluster {
			list = append(list, r)
		}
	}
	if len(list) == 0 {
		return &lab.Error{
			Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("the estate has no cluster %q", cluster),
			Cure: "there are: " + strings.Join(clusterNames(est.Clusters), ", "),
		}
	}
	return p.ui.Bridge(ws.Name, list)
}

func clusterNames(clusters []lab.Cluster) []string {
	var names []string
	for _, c := range clusters {
		names = append(names, c.Name)
	}
	return names
}
