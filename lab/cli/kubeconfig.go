package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"homelab/lab"
	"homelab/lab/ui"
)

func (p *program) kubeconfigCommand() *cli.Command {
	return &cli.Command{
		Name:      "kubeconfig",
		Usage:     "print the paths of the lab's kubeconfig files, for KUBECONFIG",
		ArgsUsage: "[CLUSTER...]",
		Description: "Contexts are named as kind names them: kind-LAB-CLUSTER. Your own kubeconfig is touched by --merge alone.\n\n" +
			examples("export KUBECONFIG=$(lab kubeconfig)", "kubectl --kubeconfig $(lab kubeconfig prod) get pods -A", "lab kubeconfig --merge"),
		Flags: []cli.Flag{
			nameFlag, outputFlag,
			&cli.BoolFlag{Name: "merge", Usage: "add the lab's contexts to your own kubeconfig"},
		},
		Action: func(c *cli.Context) error {
			s, err := p.existing(c)
			if err != nil {
				return err
			}
			info, err := s.kubeconfigs(c.Args().Slice())
			if err != nil {
				return err
			}
			if c.Bool("merge") {
				if err := mergeKubeconfigs(info.Clusters); err != nil {
					return err
				}
			}
			if p.ui.WantsJSON() {
				return p.ui.JSON(info)
			}
			p.ui.Print(info.Kubeconfig)
			return nil
		},
	}
}

// kubeconfigs lists the lab's kubeconfig files: those of the named clusters, or all.
func (s *session) kubeconfigs(names []string) (ui.KubeconfigResult, error) {
	info := ui.KubeconfigResult{Lab: s.name}
	files, err := filepath.Glob(filepath.Join(s.dir.Kubeconfigs(), "*.yaml"))
	if err != nil {
		return info, fmt.Errorf("kubeconfigs: %w", err)
	}
	var paths, have []string
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".yaml")
		have = append(have, name)
		if len(names) == 0 || slices.Contains(names, name) {
			info.Clusters = append(info.Clusters, ui.KubeconfigFile{Name: name, Path: f, Context: "kind-" + lab.KindName(s.name, name)})
			paths = append(paths, f)
		}
	}
	for _, n := range names {
		if !slices.Contains(have, n) {
			return info, &lab.Error{
				Exit: lab.ExitFailed, Code: "no_cluster", Message: fmt.Sprintf("lab %s has no cluster %q", s.name, n),
				Cure: "there are: " + strings.Join(have, ", "),
			}
		}
	}
	if len(paths) == 0 {
		return info, &lab.Error{Exit: lab.ExitFailed, Code: "no_cluster", Message: fmt.Sprintf("lab %s has no cluster yet", s.name), Cure: s.command("lab up") + " makes them"}
	}
	info.Kubeconfig = strings.Join(paths, string(os.PathListSeparator))
	return info, nil
}

// mergeKubeconfigs adds contexts to the file that kubectl would write to; its current context stays.
func mergeKubeconfigs(files []ui.KubeconfigFile) error {
	access := clientcmd.NewDefaultPathOptions()
	mine, err := access.GetStartingConfig()
	if err != nil {
		return fmt.Errorf("your kubeconfig: %w", err)
	}
	for _, f := range files {
		theirs, err := clientcmd.LoadFromFile(f.Path)
		if err != nil {
			return fmt.Errorf("kubeconfig of cluster %s: %w", f.Name, err)
		}
		add(mine, theirs)
	}
	if err := clientcmd.ModifyConfig(access, *mine, false); err != nil {
		return fmt.Errorf("your kubeconfig: %w", err)
	}
	return nil
}

// add copies entries without the file that they came from, to which clientcmd would write them back.
func add(to, from *clientcmdapi.Config) {
	for k, v := range from.Clusters {
		v.LocationOfOrigin = ""
		to.Clusters[k] = v
	}
	for k, v := range from.AuthInfos {
		v.LocationOfOrigin = ""
		to.AuthInfos[k] = v
	}
	for k, v := range from.Contexts {
		v.LocationOfOrigin = ""
		to.Contexts[k] = v
	}
}
