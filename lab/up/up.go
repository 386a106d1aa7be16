// Package up implements lab up, down, status and restore: it observes the actual state, plans the steps to the desired one, and applies them through
// adapter interfaces. It prints nothing.
package up

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/cluster"
	"homelab/lab/engine"
	"homelab/lab/engine/survey"
	"homelab/lab/forge"
	"homelab/lab/state"
)

// Clusters manages the lab's network and clusters.
type Clusters interface {
	HasNetwork(ctx context.Context) (bool, error)
	EnsureNetwork(ctx context.Context) error
	RemoveNetwork(ctx context.Context) error
	Subnet(ctx context.Context) (string, error)
	EnsureSubnet(ctx context.Context, subnet string) error
	Create(ctx context.Context, spec cluster.Spec, p lab.Progress) error
	Delete(ctx context.Context, name string) error
	// Forget drops lab's record of an attached cluster without touching the cluster.
	Forget(ctx context.Context, name string) error
	RESTConfig(name string) (*rest.Config, error)
	Observe(ctx context.Context, names ...string) ([]lab.ClusterState, error)
	Start(ctx context.Context, name string, p lab.Progress) error
	Load(ctx context.Context, name string, images []lab.Image, p lab.Progress) error
	EnsureNamespaces(ctx context.Context, name string, namespaces []string, p lab.Progress) ([]string, error)
	Mark(ctx context.Context, name, inputs string, images []string) error
	Record(ctx context.Context, name, inputs string) error
	Introduce(ctx context.Context, name string, r lab.Registry, p lab.Progress) error
	Knows(ctx context.Context, name string, r lab.Registry) (bool, error)
}

// Forge is the lab's Git server, with the estate, mirrors of the other repositories, charts and webhooks.
type Forge interface {
	Observe(ctx context.Context) (forge.State, error)
	Start(ctx context.Context, spec forge.Spec, port int, p lab.Progress) error
	Inputs(spec forge.Spec) string
	Account(writes bool) forge.Account
	Remove(ctx context.Context) error
	Push(ctx context.Context, tree forge.Tree, message string) (forge.PushResult, error)
	Diff(ctx context.Context, tree forge.Tree) ([]string, error)
	Ahead(ctx context.Context, tree forge.Tree) ([]forge.Commit, error)
	Mirror(ctx context.Context, m forge.Mirror, url, secret string, also ...string) (forge.PushResult, error)
	Mirrored(ctx context.Context, m forge.Mirror, url, secret string, also ...string) (forge.Mirrored, error)
	PublishCharts(ctx context.Context, charts []lab.Chart) ([]string, error)
	MissingCharts(ctx context.Context, charts []lab.Chart) ([]string, error)
	EnsureWebhook(ctx context.Context, url, secret string, also ...string) (bool, error)
	HasWebhook(ctx context.Context, url, secret string, also ...string) (bool, error)
	Foreign(ctx context.Context, tree forge.Tree, mirrors []forge.Mirror) (forge.Foreign, error)
	Wake(ctx context.Context) (bool, error)
}

// Engine is the GitOps engine on the hub.
type Engine interface {
	engine.Installer
	engine.Retirer
	engine.Registrar
	engine.Receiver
	engine.Reporter
}

// Supply builds or fetches images and charts, and describes them without fetching them.
type Supply interface {
	Image(ctx context.Context, name string, p lab.Progress) (lab.Image, error)
	Chart(ctx context.Context, name, version string, p lab.Progress) (lab.Chart, error)
	Expect(names ...string) error
	Left() time.Duration // estimated build time of the expected images; 0 if none is being built
	Present(image, chart, version string) bool
	Ref(image string) string
	Key(image string) string
	Version(image string) string
	ChartVersion(chart string) string
	HasChart(chart, version string) bool
	ImagesOf(chart, version string) []string
}

// Containers is the container engine.
type Containers interface {
	ID(ctx context.Context) (string, error) // may be empty
	Endpoint(ctx context.Context) (string, error)
	Answers(ctx context.Context) error
	LoadImage(ctx context.Context, image lab.Image, p lab.Progress) error
	Published(ctx context.Context, network string) (map[string]map[string]string, error)
}

// Lab is a lab with its adapters. Its fields must be set before the first call.
type Lab struct {
	Name       string
	Estate     *lab.Estate // nil for calls that need none
	Files      forge.Tree  // of the estate, if it is invalid; may be empty
	Dir        *state.Dir
	Ports      state.Ports
	Creds      state.Credentials
	Clusters   Clusters
	Forge      Forge
	Supply     Supply
	Containers Containers
	Snapshots  Snapshots
	Parts      []Part                 // all that there are, wanted or not
	Registry   lab.Registry           // its host is empty unless the estate has one
	Runner     forge.Guest            // zero unless the estate has a runner
	Definition engine.Definition      // of the hub's engine
	Release    lab.Release            // of the engine; zero for the supply's default
	Nodes      map[string]lab.Release // of Kubernetes, by cluster; absent for the supply's default
	Others     []engine.Definition    // that the hub's engine may replace
	// Connect connects to the engine on a running hub; nil means that of the Definition.
	Connect func(hub string) (Engine, error)
	// ConnectFormer connects to one of Others on a running hub; nil means that of its Definition.
	ConnectFormer func(d engine.Definition, hub string) (Engine, error)
	// Survey surveys the clusters before and after an upgrade of the engine; nil means that of lab/engine/survey.
	Survey func(context.Context) (survey.Survey, error)
	// FreePort returns a free port of this machine; nil means state.FreePort.
	FreePort func(prefer int, taken ...int) (int, error)

	mu  sync.Mutex
	hub Engine // cached result of Connect
}

// Engine returns the engine on the hub, which must be running.
func (l *Lab) Engine() (Engine, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hub != nil {
		return l.hub, nil
	}
	e, err := l.engineOn(l.hubName())
	if err == nil {
		l.hub = e
	}
	return e, err
}

// engineOn connects to the engine on a candidate hub.
func (l *Lab) engineOn(hub string) (Engine, error) {
	if l.Connect != nil {
		return l.Connect(hub)
	}
	return l.connect(l.Definition, hub)
}

// disconnect drops the connection to a hub that was replaced.
func (l *Lab) disconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hub = nil
}
