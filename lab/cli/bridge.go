package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/ui"
	"homelab/lab/up"
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
				s, err := p.open(c)
				if err != nil {
					return err
				}
				est, err := s.load()
				if err != nil {
					return err
				}
				return p.showBridge(s.name, est, c.String("cluster"))
			},
		}},
	}
}

func (p *program) showBridge(labName string, est *lab.Estate, cluster string) error {
	var list []lab.Registration
	for _, r := range up.Registrations(labName, est) {
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
	if p.ui.WantsJSON() {
		return p.ui.JSON(ui.NewBridgeResult(labName, list))
	}
	for i, r := range list {
		if i > 0 {
			p.ui.Print("")
		}
		p.ui.Print(fmt.Sprintf("%s   %s", r.Cluster, r.Server))
		t := ui.Table{}
		for _, part := range []struct {
			kind   string
			values map[string]lab.Value
		}{{"label", r.Labels}, {"annotation", r.Annotations}} {
			for _, key := range slices.Sorted(maps.Keys(part.values)) {
				v := part.values[key]
				from := v.Origin
				if v.At.File != "" {
					from = v.At.String()
				}
				t.Rows = append(t.Rows, []string{part.kind, key, v.Value, from})
			}
		}
		p.ui.Table(t)
	}
	return nil
}

func clusterNames(clusters []lab.Cluster) []string {
	var names []string
	for _, c := range clusters {
		names = append(names, c.Name)
	}
	return names
}
