package clustertest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"homelab/lab"
	"homelab/lab/cluster"
)

// Engine is a container engine in memory, shared by the fakes of several labs.
type Engine struct {
	mu       sync.Mutex
	networks map[string]bool
	clusters map[string]*made // by kind name
}

type made struct {
	lab    string
	state  lab.ClusterState
	images []lab.Image
}

// NewEngine returns an empty engine.
func NewEngine() *Engine { return &Engine{networks: map[string]bool{}, clusters: map[string]*made{}} }

// Fake is a lab's clusters without containers. The zero value of Fail makes everything succeed.
type Fake struct {
	engine *Engine
	lab    string
	dir    string

	// Fail, where set, is asked before each call and may return the error that it ends with: "create", "start", "load", "mark", "delete", "observe".
	Fail func(call, cluster string) error
}

// NewFake returns the clusters of a lab in an engine; kubeconfigs are empty files in dir.
func NewFake(e *Engine, labName, dir string) *Fake { return &Fake{engine: e, lab: labName, dir: dir} }

var _ Clusters = (*Fake)(nil)

func (f *Fake) fail(call, name string) error {
	if f.Fail == nil {
		return nil
	}
	return f.Fail(call, name)
}

// Kubeconfig is the path of a cluster's kubeconfig.
func (f *Fake) Kubeconfig(name string) string { return filepath.Join(f.dir, name+".yaml") }

// HasNetwork says whether the lab's network exists.
func (f *Fake) HasNetwork(context.Context) (bool, error) {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	return f.engine.networks[f.lab], nil
}

// EnsureNetwork makes the lab's network.
func (f *Fake) EnsureNetwork(context.Context) error {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	f.engine.networks[f.lab] = true
	return nil
}

// RemoveNetwork removes the lab's network; like Docker it refuses while clusters are in it.
func (f *Fake) RemoveNetwork(context.Context) error {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	for _, m := range f.engine.clusters {
		if m.lab == f.lab {
			return errors.New("network has active endpoints")
		}
	}
	delete(f.engine.networks, f.lab)
	return nil
}

// Observe tells what there is of the lab's clusters.
func (f *Fake) Observe(context.Context) ([]lab.ClusterState, error) {
	if err := f.fail("observe", ""); err != nil {
		return nil, err
	}
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	var states []lab.ClusterState
	for _, m := range f.engine.clusters {
		if m.lab == f.lab {
			s := m.state
			s.Nodes = slices.Clone(s.Nodes)
			if !s.Running { // an API that does not answer
				s.Ready, s.Kubernetes, s.Inputs, s.Images = false, "", "", nil
			}
			states = append(states, s)
		}
	}
	slices.SortFunc(states, func(a, b lab.ClusterState) int { return strings.Compare(a.Name, b.Name) })
	return states, nil
}

// Create makes a cluster at once.
func (f *Fake) Create(ctx context.Context, spec cluster.Spec, p lab.Progress) error {
	name := spec.Cluster.Name
	if err := cluster.Check(f.lab, spec); err != nil {
		return err
	}
	key := lab.KindName(f.lab, name)
	f.engine.mu.Lock()
	_, exists := f.engine.clusters[key]
	f.engine.mu.Unlock()
	if exists {
		return &lab.Error{Exit: lab.ExitFailed, Code: cluster.CodeLeftOver, Message: fmt.Sprintf("a kind cluster called %s exists already", key)}
	}
	if p != nil {
		p("preparing nodes")
	}
	var images []lab.Image
	if spec.Images != nil {
		var err error
		if images, err = spec.Images(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(ctx.Err(), f.fail("create", name)); err != nil {
		return err
	}
	if err := f.writeKubeconfig(name); err != nil {
		return err
	}
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	f.engine.networks[f.lab] = true
	f.engine.clusters[key] = &made{lab: f.lab, images: images, state: lab.ClusterState{
		Name: name, Kubernetes: "v1.36.3", Ready: true, Exists: true, Running: true, Nodes: []string{key + "-control-plane"},
	}}
	return nil
}

func (f *Fake) writeKubeconfig(name string) error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(f.Kubeconfig(name), nil, 0o600)
}

// with runs change on a cluster that exists.
func (f *Fake) with(call, name string, change func(*made)) error {
	if err := f.fail(call, name); err != nil {
		return err
	}
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	m := f.engine.clusters[lab.KindName(f.lab, name)]
	if m == nil {
		return fmt.Errorf("cluster %s has no nodes", name)
	}
	change(m)
	return nil
}

// Start starts a stopped cluster.
func (f *Fake) Start(_ context.Context, name string, _ lab.Progress) error {
	if err := f.with("start", name, func(m *made) { m.state.Running = true }); err != nil {
		return err
	}
	return f.writeKubeconfig(name)
}

// Load notes images, telling of those that were not there.
func (f *Fake) Load(_ context.Context, name string, images []lab.Image, p lab.Progress) error {
	return f.with("load", name, func(m *made) {
		for _, i := range images {
			if !slices.Contains(m.images, i) {
				m.images = append(m.images, i)
				if p != nil {
					p("loading image " + i.Ref)
				}
			}
		}
	})
}

// Mark notes what the cluster was made from.
func (f *Fake) Mark(_ context.Context, name, inputs string, images []string) error {
	return f.with("mark", name, func(m *made) { m.state.Inputs, m.state.Images = inputs, images })
}

// Delete removes a cluster.
func (f *Fake) Delete(_ context.Context, name string) error {
	if err := f.fail("delete", name); err != nil {
		return err
	}
	f.engine.mu.Lock()
	delete(f.engine.clusters, lab.KindName(f.lab, name))
	f.engine.mu.Unlock()
	if err := os.Remove(f.Kubeconfig(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Stop stops a cluster by one of its nodes' names, as a restart of the machine does.
func (f *Fake) Stop(node string) {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	for _, m := range f.engine.clusters {
		if slices.Contains(m.state.Nodes, node) {
			m.state.Running = false
		}
	}
}

// Images are the images that a cluster holds.
func (f *Fake) Images(name string) []lab.Image {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	if m := f.engine.clusters[lab.KindName(f.lab, name)]; m != nil {
		return slices.Clone(m.images)
	}
	return nil
}
