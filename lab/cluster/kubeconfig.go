package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"homelab/lab"
)

// Kubeconfig is the file that leads into one cluster.
type Kubeconfig struct {
	Cluster string
	Path    string
	Context string // of the file
	Made    bool   // by lab: the cluster is none that exists without it
}

// writeKubeconfig puts one in place as a whole, readable by its owner alone.
func writeKubeconfig(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, werr := f.Write(text)
	if err := errors.Join(werr, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}

// forgetKubeconfig removes one, what an interrupted write of it left, and the lock that kind keeps beside it, which a killed run leaves.
func forgetKubeconfig(file string) error {
	files, err := filepath.Glob(file + ".*")
	if err != nil {
		return err
	}
	for _, f := range append(files, file) {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Kubeconfigs lists those of a lab that are in a folder, by cluster.
func Kubeconfigs(labName, dir string) ([]Kubeconfig, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("kubeconfigs: %w", err)
	}
	var list []Kubeconfig
	for _, f := range files {
		k := Kubeconfig{Cluster: strings.TrimSuffix(filepath.Base(f), ".yaml"), Path: f, Made: true}
		k.Context = "kind-" + lab.KindName(labName, k.Cluster)
		if cfg, err := clientcmd.LoadFromFile(f); err == nil && cfg.CurrentContext != "" && cfg.CurrentContext != k.Context {
			k.Context, k.Made = cfg.CurrentContext, false
		}
		list = append(list, k)
	}
	return list, nil
}

// ChooseKubeconfigs lists those of the named clusters, or of all; up is the command that makes clusters.
func ChooseKubeconfigs(labName, dir string, names []string, up string) ([]Kubeconfig, error) {
	all, err := Kubeconfigs(labName, dir)
	if err != nil {
		return nil, err
	}
	var list []Kubeconfig
	var have []string
	for _, k := range all {
		have = append(have, k.Cluster)
		if len(names) == 0 || slices.Contains(names, k.Cluster) {
			list = append(list, k)
		}
	}
	for _, n := range names {
		if !slices.Contains(have, n) {
			return nil, &lab.Error{
				Exit: lab.ExitFailed, Code: "no_cluster", Message: fmt.Sprintf("lab %s has no cluster %q", labName, n), Cure: "there are: " + strings.Join(have, ", "),
			}
		}
	}
	if len(list) == 0 {
		return nil, &lab.Error{Exit: lab.ExitFailed, Code: "no_cluster", Message: fmt.Sprintf("lab %s has no cluster yet", labName), Cure: up + " makes them"}
	}
	return list, nil
}

// MergeKubeconfigs adds contexts to the file that kubectl would write to; its current context stays.
func MergeKubeconfigs(list []Kubeconfig) error {
	access := clientcmd.NewDefaultPathOptions()
	mine, err := access.GetStartingConfig()
	if err != nil {
		return fmt.Errorf("your kubeconfig: %w", err)
	}
	for _, k := range list {
		if !k.Made { // its owner has it already, and knows better
			continue
		}
		theirs, err := clientcmd.LoadFromFile(k.Path)
		if err != nil {
			return fmt.Errorf("kubeconfig of cluster %s: %w", k.Cluster, err)
		}
		addEntries(mine, theirs)
	}
	if err := clientcmd.ModifyConfig(access, *mine, false); err != nil {
		return fmt.Errorf("your kubeconfig: %w", err)
	}
	return nil
}

// addEntries copies entries without the file that they came from, to which clientcmd would write them back.
func addEntries(to, from *clientcmdapi.Config) {
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
