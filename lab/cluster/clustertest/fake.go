package clustertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/cluster"
	"homelab/lab/state"
)

// Engine is an in-memory container engine, shared by the fakes of several labs.
type Engine struct {
	mu       sync.Mutex
	networks map[string]string    // lab -> subnet
	clusters map[string]*instance // by kind name
	outside  map[string]*instance // existing clusters, by name
	ids      int
}

// instance is a cluster's container and its contents.
type instance struct {
	lab, name string
	id        string // of the container
	born      string // unique identity
	running   bool
	started   time.Time
	paused    bool
	silent    bool // its API does not answer
	ready     bool
	images    []lab.Image
	mark      *mark        // in its API
	file      string       // in its node; empty for none
	unread    int          // observations left in which its node is unreadable
	spaces    []string     // namespaces
	registry  lab.Registry // that its nodes know
	ends      time.Time    // of its certificates; zero for never
	attached  bool         // an existing cluster, which outlives every lab
}

type mark struct {
	inputs string
	images []string
}

func (m *instance) answers() bool {
	return m.running && !m.paused && !m.silent && m.ready && (m.ends.IsZero() || m.ends.After(time.Now()))
}

// NewEngine returns an empty engine.
func NewEngine() *Engine {
	return &Engine{networks: map[string]string{}, clusters: map[string]*instance{}, outside: map[string]*instance{}}
}

// Fake implements Clusters in memory. The zero value of Fail makes everything succeed.
type Fake struct {
	engine *Engine
	lab    string
	state  *state.Dir

	// Fail, if set, is called before each call, and before each stage of Create, and may return the error to end it with: "observe", "create", "create/record",
	// "create/nodes", "create/known", "create/ready", "start", "load", "mark", "mark/api", "mark/record", "delete", "delete/nodes". A call that ends with
	// ErrKilled cleans nothing up, as in a killed process.
	Fail func(call, cluster string) error
}

// ErrKilled ends a call like the death of its process, without cleanup.
var ErrKilled = errors.New("killed")

// NewFake returns the clusters of the lab of dir in an engine; kubeconfigs are empty files.
func NewFake(e *Engine, dir *state.Dir) *Fake { return &Fake{engine: e, lab: dir.Lab, state: dir} }

var _ Clusters = (*Fake)(nil)

func (f *Fake) fail(call, name string) error {
	if f.Fail == nil {
		return nil
	}
	return f.Fail(call, name)
}

// Kubeconfig returns the path of a cluster's kubeconfig.
func (f *Fake) Kubeconfig(name string) string {
	return filepath.Join(f.state.Kubeconfigs(), name+".yaml")
}

// RESTConfig returns the client configuration of a cluster.
func (f *Fake) RESTConfig(name string) (*rest.Config, error) {
	if _, err := os.Stat(f.Kubeconfig(name)); err != nil {
		return nil, err
	}
	return &rest.Config{Host: "https://" + lab.KindName(f.lab, name)}, nil
}

// Observe returns the state of the lab's clusters.
func (f *Fake) Observe(_ context.Context, names ...string) ([]lab.ClusterState, error) {
	if err := f.fail("observe", ""); err != nil {
		return nil, err
	}
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	var states []lab.ClusterState
	for key, m := range f.engine.clusters {
		if m.lab == f.lab && (len(names) == 0 || slices.Contains(names, m.name)) {
			states = append(states, f.seen(key, m))
		}
	}
	slices.SortFunc(states, func(a, b lab.ClusterState) int { return strings.Compare(a.Name, b.Name) })
	return states, nil
}

func (f *Fake) seen(key string, m *instance) lab.ClusterState {
	s := lab.ClusterState{Name: m.name, Exists: true, Running: m.running && !m.paused, Started: m.started, Nodes: []string{key + "-control-plane"}}
	if !m.ends.IsZero() {
		s.CertificatesEnd = m.ends
		s.Renew = s.Ending(time.Now())
	}
	_, unreadable := os.Stat(f.Kubeconfig(m.name))
	var api cluster.Evidence
	switch {
	case !m.running:
		s.Fault = "stopped"
	case m.paused:
		s.Fault = "paused"
	case unreadable != nil:
		s.Fault = "its kubeconfig cannot be read"
	case !m.answers():
		s.Fault = cmp.Or(s.Renew, "its API does not answer")
	default:
		s.Answers, s.Ready, s.Kubernetes, s.Namespaces = true, true, "v1.36.3", slices.Clone(m.spaces)
		api.Known = true
		if m.mark != nil {
			api.Found, api.Inputs, s.Marked, s.Images = true, m.mark.inputs, true, m.mark.images
		}
	}
	record := f.state.Cluster(m.name)
	if m.attached {
		s.Attached, s.Nodes, s.Made, s.Inputs, s.Recorded = true, nil, lab.MadeWhole, record.Inputs, record.Attached && record.Whole
		if m.mark != nil && !s.Recorded {
			s.Inputs = m.mark.inputs
		}
		return s
	}
	s.Made, s.Inputs = cluster.Judge(record, []string{m.id}, api, func() cluster.Evidence {
		if m.unread > 0 {
			m.unread--
			return cluster.Evidence{}
		}
		return cluster.Evidence{Known: true, Found: m.file != "", Inputs: m.file}
	})
	s.Recorded = s.Made == lab.MadeWhole && record.Whole && !record.Removing && record.Inputs == s.Inputs && slices.Equal(record.Nodes, []string{m.id})
	return s
}

// Create creates a cluster in kind's stages: lab's record, nodes, their ids in the record, a ready API. A failed creation is rolled back.
func (f *Fake) Create(ctx context.Context, spec cluster.Spec, p lab.Progress) error {
	name, key := spec.Cluster.Name, lab.KindName(f.lab, spec.Cluster.Name)
	if err := cluster.Check(f.lab, spec); err != nil {
		return err
	}
	if err := f.fail("create", name); err != nil {
		return err
	}
	if spec.Cluster.Provider == lab.ProviderExisting {
		return f.attach(name, key)
	}
	if f.state.Cluster(name).Began.IsZero() {
		if err := f.state.SaveCluster(name, state.Cluster{}); err != nil {
			return err
		}
	}
	f.engine.mu.Lock()
	_, exists := f.engine.clusters[key]
	f.engine.mu.Unlock()
	if exists {
		return &lab.Error{Exit: lab.ExitFailed, Code: cluster.CodeLeftOver, Message: fmt.Sprintf("a kind cluster called %s exists already", key)}
	}
	if p != nil {
		p("preparing nodes")
	}
	err := f.make(ctx, spec)
	if err != nil && !errors.Is(err, ErrKilled) {
		err = errors.Join(err, f.Delete(context.WithoutCancel(ctx), name))
	}
	return err
}

func (f *Fake) make(ctx context.Context, spec cluster.Spec) error {
	name, key := spec.Cluster.Name, lab.KindName(f.lab, spec.Cluster.Name)
	m := &instance{lab: f.lab, name: name, running: true, started: time.Now()}
	stages := []struct {
		name string
		do   func() error
	}{
		{"create/record", func() error { return f.state.SaveCluster(name, state.Cluster{}) }},
		{"create/nodes", func() error {
			f.engine.network(f.lab, "")
			f.engine.ids++
			m.id = fmt.Sprintf("id%d", f.engine.ids)
			m.born = m.id
			f.engine.clusters[key] = m
			return f.writeKubeconfig(name)
		}},
		{"create/known", func() error { return f.state.SaveCluster(name, state.Cluster{Nodes: []string{m.id}}) }},
		{"create/ready", func() error { m.ready = true; return nil }},
	}
	for _, stage := range stages {
		if err := errors.Join(ctx.Err(), f.fail(stage.name, name)); err != nil {
			return err
		}
		f.engine.mu.Lock()
		err := stage.do()
		f.engine.mu.Unlock()
		if err != nil {
			return err
		}
	}
	if spec.Images == nil {
		return ctx.Err()
	}
	images, err := spec.Images(ctx)
	if err != nil {
		return err
	}
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	m.images = images
	return ctx.Err()
}

func (f *Fake) writeKubeconfig(name string) error {
	if err := os.MkdirAll(f.state.Kubeconfigs(), 0o700); err != nil {
		return err
	}
	return os.WriteFile(f.Kubeconfig(name), nil, 0o600)
}

// update applies change to an existing cluster.
func (f *Fake) update(call, name string, change func(*instance) error) error {
	if err := f.fail(call, name); err != nil {
		return err
	}
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	m := f.engine.clusters[lab.KindName(f.lab, name)]
	if m == nil {
		return fmt.Errorf("cluster %s has no nodes", name)
	}
	return change(m)
}

// Start starts a stopped cluster, unpauses a paused one and renews its certificates; a silent API is a timeout.
func (f *Fake) Start(_ context.Context, name string, _ lab.Progress) error {
	return f.update("start", name, func(m *instance) error {
		if !m.running {
			m.started = time.Now()
		}
		m.running, m.paused = true, false
		if f.seen(lab.KindName(f.lab, name), m).Renew != "" {
			m.ends = time.Now().AddDate(9, 0, 0)
		}
		if err := f.writeKubeconfig(name); err != nil {
			return err
		}
		if !m.answers() {
			return &lab.Error{Exit: lab.ExitTimeout, Code: "timeout", Message: "cluster " + name + ": not ready after 5m0s", Cure: "lab up continues to wait"}
		}
		return nil
	})
}

// Delete deletes a cluster.
func (f *Fake) Delete(_ context.Context, name string) error {
	if err := f.fail("delete", name); err != nil {
		return err
	}
	key := lab.KindName(f.lab, name)
	f.engine.mu.Lock()
	m := f.engine.clusters[key]
	f.engine.mu.Unlock()
	if m != nil && m.attached {
		return f.forget(name)
	}
	if m != nil && m.lab == f.lab {
		r := f.state.Cluster(name)
		r.Removing = true
		if r.Whole || len(r.Nodes) == 0 {
			r.Nodes = []string{m.id}
		}
		if err := f.state.SaveCluster(name, r); err != nil {
			return err
		}
		if err := f.fail("delete/nodes", name); err != nil {
			return err
		}
		f.engine.mu.Lock()
		delete(f.engine.clusters, key)
		f.engine.mu.Unlock()
	}
	if err := os.Remove(f.Kubeconfig(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.state.ForgetCluster(name)
}
