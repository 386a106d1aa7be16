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

// Kubeconfig is the kubeconfig file of one cluster.
type Kubeconfig struct {
	Cluster string
	Path    string
	Context string // of the file
	Made    bool   // created by lab, not attached
}

// writeKubeconfig writes a kubeconfig atomically, with mode 0600.
func writeKubeconfig(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, werr := f.Write(text)
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}

// forgetKubeconfig removes a kubeconfig, remains of an interrupted write, and kind's lock, which a killed run leaves behind.
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

// Kubeconfigs lists a lab's kubeconfigs in a folder by cluster.
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

// ChooseKubeconfigs lists the kubeconfigs of the named clusters, or of all; up is the command suggested for creating clusters.
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

// MergeKubeconfigs adds contexts to the file that kubectl would write to, and keeps its current context.
func MergeKubeconfigs(list []Kubeconfig) error {
	access := clientcmd.NewDefaultPathOptions()
	mine, err := access.GetStartingConfig()
	if err != nil {
		return fmt.Errorf("your kubeconfig: %w", err)
	}
	for _, k := range list {
		if !k.Made { // already in its owner's kubeconfig
			continue
		}
		theirs, err := clientcmd.LoadFromFile(k.Path)
		if err != nil {
			return fmt.Errorf("kubeconfig of cluster %s: %w", k.Cluster, err)
		}
		addEntries(mine, theirs)
	}
	err = intact(access.GetLoadingPrecedence(), func() error { return clientcmd.ModifyConfig(access, *mine, false) })
	if err != nil {
		return fmt.Errorf("your kubeconfig: %w", err)
	}
	return nil
}

// intact calls do, which writes files, and restores their content if it fails: clientcmd truncates a file before it writes, and the disk may be full.
// Copies are made first, while there is enough space.
func intact(files []string, do func() error) (err error) {
	copies := map[string]string{}
	defer func() {
		failed := err != nil
		for file, kept := range copies {
			if failed {
				err = errors.Join(err, os.Rename(kept, file))
			} else {
				err = errors.Join(err, os.Remove(kept))
			}
		}
	}()
	for _, file := range files {
		real, err := filepath.EvalSymlinks(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		kept, err := copyBeside(real)
		if err != nil {
			return err
		}
		copies[real] = kept
	}
	return do()
}

// copyBeside copies a file into its own folder, with its permissions.
func copyBeside(file string) (name string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".lab-")
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(info.Mode().Perm()), f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// addEntries copies entries without their LocationOfOrigin, to which clientcmd would write them back.
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
