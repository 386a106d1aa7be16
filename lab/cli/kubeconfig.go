package cli

import (
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"homelab/lab/argv"
	"homelab/lab/cluster"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

func (p *program) kubeconfigCommand() *cli.Command {
	return &cli.Command{
		Name:      "kubeconfig",
		Usage:     "print the paths of the lab's kubeconfig files, for KUBECONFIG",
		ArgsUsage: "[CLUSTER...]",
		Description: "Contexts are named as by kind: kind-LAB-CLUSTER. Only --merge touches your own kubeconfig.\n\n" +
			examples("export KUBECONFIG=$(lab kubeconfig)", "kubectl --kubeconfig $(lab kubeconfig prod) get pods -A", "lab kubeconfig --merge"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag,
			&cli.BoolFlag{Name: "merge", Usage: "add the lab's contexts to your own kubeconfig"},
		},
		Action: p.labAction(p.existing, argv.AnyArgs, func(c *cli.Context, ws *workspace.Workspace) error {
			return p.kubeconfig(ws, c.Args().Slice(), c.Bool("merge"))
		}),
	}
}

// kubeconfig prints the kubeconfig files of the named clusters, or of all.
func (p *program) kubeconfig(ws *workspace.Workspace, names []string, merge bool) error {
	files, err := kubeconfigs(ws, names)
	if err != nil {
		return err
	}
	if merge {
		if err := cluster.MergeKubeconfigs(files); err != nil {
			return err
		}
	}
	info := kubeconfigResult(ws.Name, files)
	return p.ui.Result(info, info.Kubeconfig)
}

func kubeconfigs(ws *workspace.Workspace, names []string) ([]cluster.Kubeconfig, error) {
	return cluster.ChooseKubeconfigs(ws.Name, ws.Dir.Kubeconfigs(), names, ws.Command("lab up"))
}

// kubeconfigResult returns a value for KUBECONFIG and its parts.
func kubeconfigResult(labName string, files []cluster.Kubeconfig) ui.KubeconfigResult {
	info := ui.KubeconfigResult{Lab: labName}
	var paths []string
	for _, k := range files {
		info.Clusters = append(info.Clusters, ui.KubeconfigFile{Name: k.Cluster, Path: k.Path, Context: k.Context})
		paths = append(paths, k.Path)
	}
	info.Kubeconfig = strings.Join(paths, string(os.PathListSeparator))
	return info
}
