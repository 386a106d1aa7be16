package engine

import (
	"context"

	"k8s.io/client-go/rest"

	"homelab/lab"
)

// Installer installs the engine on the hub, or on a spoke with its own.
type Installer interface {
	Observe(ctx context.Context) (State, error)
	Install(ctx context.Context, chart lab.Chart, values map[string]any, p lab.Progress) (bool, error)
}

// Retirer removes an engine that is replaced by another.
type Retirer interface {
	// Retire removes the engine from the hub, and its access and traces from spokes. Applied objects stay unchanged. An interrupted call can be repeated.
	Retire(ctx context.Context, spokes map[string]*rest.Config, p lab.Progress) error
}

// Registrar manages the engine's clusters.
type Registrar interface {
	Register(ctx context.Context, reg lab.Registration, spoke *rest.Config) ([]string, error)
	CheckCredentials(ctx context.Context, cluster string, spoke *rest.Config) (string, error)
	// Unregister unregisters a cluster, and removes from it what the engine installed.
	Unregister(ctx context.Context, d Departure, p lab.Progress) ([]string, error)
	// Withdraw removes everything that the engine installed in these clusters, including its own access, and describes what stays. The engine no longer syncs
	// anything afterwards: the hub is about to be deleted.
	Withdraw(ctx context.Context, spokes map[string]*rest.Config, p lab.Progress) ([]string, error)
}

// Departure is a cluster to unregister.
type Departure struct {
	Cluster string
	Spoke   *rest.Config // nil if the cluster is unreachable or gone
	LivesOn bool         // the cluster outlives the lab, so the engine's access is removed, too
}

// Receiver configures what the engine syncs.
type Receiver interface {
	ApplyRepositories(ctx context.Context, repos []Repository) ([]string, error)
	ApplyRoot(ctx context.Context, root Root) (bool, error)
	Drift(ctx context.Context, root Root, repos []Repository) ([]string, error)
}

// Guard is implemented by engines that could sync what replaces them. Guard takes effect before that is pushed; ApplyRoot includes it, and lifts what is outdated.
type Guard interface {
	Guard(ctx context.Context, root Root) error
}

// Reporter reports the engine's results.
type Reporter interface {
	Snapshot(ctx context.Context) (Snapshot, error)
	WaitConverged(ctx context.Context, want Want, p lab.Progress) ([]lab.Application, error)
}

// Watcher observes the engine at work.
type Watcher interface {
	Applications(ctx context.Context) ([]lab.Application, error)
	// Watch reports every application, calls ready, and then reports each change in order until ctx ends. Roots are omitted.
	Watch(ctx context.Context, seen func(lab.Application, Observed), ready func()) error
	// Refresh makes the engine poll Git.
	Refresh(ctx context.Context) error
}

// Marker reads and changes the labels and annotations of a cluster's registration.
type Marker interface {
	Registration(ctx context.Context, cluster string) (Registered, error)
	Mark(ctx context.Context, cluster string, m Marks) error
}

// Engine combines all interfaces of an engine.
type Engine interface {
	Installer
	Retirer
	Registrar
	Receiver
	Reporter
	Watcher
	Marker
}

// Observed extends lab.Application in a watch.
type Observed struct {
	SelfHeal   bool
	Gone       bool
	Definition string // digest of the application's definition, independent of its status
}
