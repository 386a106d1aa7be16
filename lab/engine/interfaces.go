package engine

import (
	"context"

	"k8s.io/client-go/rest"

	"homelab/lab"
)

// Installer puts the engine on the hub.
type Installer interface {
	Observe(ctx context.Context) (State, error)
	Install(ctx context.Context, chart lab.Chart, values map[string]any, p lab.Progress) (bool, error)
}

// Registrar makes clusters known to the engine.
type Registrar interface {
	Register(ctx context.Context, reg lab.Registration, spoke *rest.Config) ([]string, error)
	Admits(ctx context.Context, cluster string, spoke *rest.Config) (string, error)
	// Unregister makes the engine forget a cluster, and removes from it what the engine brought there.
	Unregister(ctx context.Context, d Departure, p lab.Progress) ([]string, error)
	// Withdraw removes all that the engine brought to these clusters, its own access included, and returns what stays there. The engine makes nothing any more
	// afterwards, anywhere: it is for a hub that goes next.
	Withdraw(ctx context.Context, spokes map[string]*rest.Config, p lab.Progress) ([]string, error)
}

// Departure is a cluster that leaves.
type Departure struct {
	Cluster string
	Spoke   *rest.Config // nil where the cluster does not answer, or is gone
	LivesOn bool         // it outlives the lab: the engine's own access is removed, too
}

// Receiver takes what the engine is to sync.
type Receiver interface {
	ApplyRepositories(ctx context.Context, repos []Repository) ([]string, error)
	ApplyRoot(ctx context.Context, root Root) (bool, error)
	Strayed(ctx context.Context, root Root, repos []Repository) ([]string, error)
}

// Reporter tells what comes of it.
type Reporter interface {
	Standing(ctx context.Context) (Standing, error)
	WaitConverged(ctx context.Context, want Want, p lab.Progress) ([]lab.Application, error)
}

// Watcher shows the engine at work.
type Watcher interface {
	Applications(ctx context.Context) ([]lab.Application, error)
	// Watch tells of every application as it is, calls ready, and goes on telling of each change, in order, until ctx ends. The root is not among them.
	Watch(ctx context.Context, seen func(lab.Application, Observed), ready func()) error
	// Refresh has the engine look at Git at once.
	Refresh(ctx context.Context) error
}

// Marker reads and changes the registration of a cluster.
type Marker interface {
	Registration(ctx context.Context, cluster string) (Registered, error)
	Mark(ctx context.Context, cluster string, m Marks) error
}

// Engine is all that an engine does for lab.
type Engine interface {
	Installer
	Registrar
	Receiver
	Reporter
	Watcher
	Marker
}

// Observed is what a watch tells beyond lab.Application.
type Observed struct {
	SelfHeal   bool
	Gone       bool
	Definition string // digest of what its maker gave it: what stays while only its state changes
}
