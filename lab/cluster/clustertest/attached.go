package clustertest

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"homelab/lab"
	"homelab/lab/state"
)

// attach attaches an existing cluster. Every name exists and runs.
func (f *Fake) attach(name, key string) error {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	m := f.engine.outside[name]
	if m == nil {
		m = &instance{name: name, born: "outside " + name, running: true, ready: true, attached: true}
		f.engine.outside[name] = m
	}
	if m.lab != "" && m.lab != f.lab {
		return &lab.Error{Exit: lab.ExitFailed, Code: "not_ours", Message: "it is a cluster of lab " + m.lab}
	}
	if err := f.state.SaveCluster(name, state.Cluster{Attached: true}); err != nil {
		return err
	}
	m.lab = f.lab
	f.engine.clusters[key] = m
	return f.writeKubeconfig(name)
}

// Forget drops lab's record of an attached cluster.
func (f *Fake) Forget(_ context.Context, name string) error {
	if err := f.fail("forget", name); err != nil {
		return err
	}
	return f.forget(name)
}

func (f *Fake) forget(name string) error {
	f.engine.mu.Lock()
	key := lab.KindName(f.lab, name)
	if m := f.engine.clusters[key]; m != nil && m.attached {
		m.lab, m.mark = "", nil
		delete(f.engine.clusters, key)
	}
	f.engine.mu.Unlock()
	if err := os.Remove(f.Kubeconfig(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.state.ForgetCluster(name)
}
