// Package up is the core of lab: it looks at what there is, plans the way to what should be, and goes it, over the adapters' interfaces. It prints nothing.
package up

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/cluster"
	"homelab/lab/engine"
	"homelab/lab/forge"
	"homelab/lab/state"
)

// Network is the lab's own network.
type Network interface {
	HasNetwork(ctx context.Context) (bool, error)
	EnsureNetwork(ctx context.Context) error
	RemoveNetwork(ctx context.Context) error
}

// Addresses are those of the lab's network.
type Addresses interface {
	Subnet(ctx context.Context) (string, error)
	EnsureSubnet(ctx context.Context, subnet string) error
}

// Maker makes clusters and removes them.
type Maker interface {
	Create(ctx context.Context, spec cluster.Spec, p lab.Progress) error
	Delete(ctx context.Context, name string) error
	// Forget drops lab's record of a cluster that lives on, and touches nothing in it.
	Forget(ctx context.Context, name string) error
	RESTConfig(name string) (*rest.Config, error)
}

// Keeper keeps clusters that are there.
type Keeper interface {
	Observe(ctx context.Context, names ...string) ([]lab.ClusterState, error)
	Start(ctx context.Context, name string, p lab.Progress) error
	Load(ctx context.Context, name string, images []lab.Image, p lab.Progress) error
}

// Marker remembers what clusters were made from.
type Marker interface {
	Mark(ctx context.Context, name, inputs string, images []string) error
	Record(ctx context.Context, name, inputs string) error
}

// Clusters are the lab's clusters.
type Clusters interface {
	Network
	Addresses
	Maker
	Keeper
	Marker
}

// Server is the forge as a thing that runs.
type Server interface {
	Observe(ctx context.Context) (forge.State, error)
	Start(ctx context.Context, image lab.Image, port int, p lab.Progress) error
	Inputs(image lab.Image) string
	Remove(ctx context.Context) error
}

// Repository is the forge's copy of the estate.
type Repository interface {
	Push(ctx context.Context, tree forge.Tree, message string) (forge.PushResult, error)
	Diff(ctx context.Context, tree forge.Tree) ([]string, error)
	Ahead(ctx context.Context, tree forge.Tree) ([]forge.Commit, error)
}

// Mirrors are the forge's copies of the repositories beside the estate.
type Mirrors interface {
	Mirror(ctx context.Context, m forge.Mirror, url, secret string) (forge.PushResult, error)
	Mirrored(ctx context.Context, m forge.Mirror, url, secret string) (forge.Mirrored, error)
}

// Services are what else the forge does for the engine.
type Services interface {
	PublishCharts(ctx context.Context, charts []lab.Chart) ([]string, error)
	MissingCharts(ctx context.Context, charts []lab.Chart) ([]string, error)
	EnsureWebhook(ctx context.Context, url, secret string) (bool, error)
	HasWebhook(ctx context.Context, url, secret string) (bool, error)
}

// Forge is the lab's Git server.
type Forge interface {
	Server
	Repository
	Mirrors
	Services
}

// Engine is the GitOps engine on the hub.
type Engine interface {
	engine.Installer
	engine.Registrar
	engine.Receiver
	engine.Reporter
}

// Supply brings images and charts to hand.
type Supply interface {
	Image(ctx context.Context, name string, p lab.Progress) (lab.Image, error)
	Chart(ctx context.Context, name, version string, p lab.Progress) (lab.Chart, error)
	Expect(names ...string) error
	Left() time.Duration // that building what is expected will take; 0 while nothing is built
	Catalogue
}

// Catalogue is what is known of images and charts without fetching any.
type Catalogue interface {
	AtHand(image, chart, version string) bool
	Ref(image string) string
	Key(image string) string
	Version(image string) string
	ChartVersion(chart string) string
	HasChart(chart, version string) bool
	ImagesOf(chart, version string) []string
}

// Containers is what lab needs of the container engine itself.
type Containers interface {
	Answers(ctx context.Context) error
	LoadImage(ctx context.Context, image lab.Image, p lab.Progress) error
	Published(ctx context.Context, network string) (map[string]map[string]string, error)
}

// Lab is one lab with its adapters. Its fields are set before the first call.
type Lab struct {
	Name       string
	Estate     *lab.Estate // nil for calls that need none
	Dir        *state.Dir
	Ports      state.Ports
	Creds      state.Credentials
	Clusters   Clusters
	Forge      Forge
	Supply     Supply
	Containers Containers
	Snapshots  Snapshots
	Definition engine.Definition // of the engine on the hub
	// Connect reaches the engine on a hub, which must run; nil for the Definition's.
	Connect func(hub string) (Engine, error)

	mu  sync.Mutex
	hub Engine // of the last Connect
}

// Engine is the engine on the hub, which must run.
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

// engineOn is the engine on any cluster that may be the hub.
func (l *Lab) engineOn(hub string) (Engine, error) {
	if l.Connect != nil {
		return l.Connect(hub)
	}
	return l.connect(hub)
}

// disconnect drops the connection to a hub that is another one now.
func (l *Lab) disconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hub = nil
}
