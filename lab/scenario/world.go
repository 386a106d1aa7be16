package scenario

import (
	"context"
	"crypto/x509"
	"io/fs"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"

	"homelab/lab"
)

// World is the lab that a scenario is played on.
type World struct {
	Lab      string
	Estate   *lab.Estate // as of the last lab up
	Engines  lab.EngineType
	Forge    Forge
	Branches Branches
	Requests Requests // nil if the Git server has no pull requests
	Clusters Clusters
	Engine   Engine
	Machines Machines          // nil if the clusters' nodes cannot be reached
	Registry Registry          // nil if the lab has none
	Others   Repositories      // nil if the Git server has none but the estate's
	HTTP     http.RoundTripper // of requests from outside; nil for this machine's network
	Roots    *x509.CertPool    // authorities of requests from outside; nil for this machine's
	Door     string            // what names of the lab end in, with a port unless that is HTTPS' own; empty if it has no door
	// Bot returns the estate's repository with the bot's credentials. It may be nil.
	Bot func(ctx context.Context) (Repository, error)
	// Inside runs a program of a node in the network of one of its pods. It may be nil.
	Inside func(ctx context.Context, node, namespace, pod string, program []string) ([]byte, error)
	// Switch replaces the engine and returns the resulting World. It is idempotent, and may be nil.
	Switch func(ctx context.Context, to lab.EngineType) (World, error)
	// Renew removes a cluster and creates it again, as `lab up --recreate` does, and returns the resulting World; with cluster "", it only completes what was begun. It
	// is idempotent, and may be nil.
	Renew func(ctx context.Context, cluster string) (World, error)
	// Upgrade brings up the engine with Helm values over those of the estate, none to return to them, and returns the resulting World and the names of what changed, by
	// kind of change. It is idempotent, and may be nil.
	Upgrade func(ctx context.Context, values map[string]any) (World, map[string][]string, error)
}

// engineOf returns the cluster where the engine of a cluster runs.
func (w World) engineOf(cluster string) string {
	if hub := w.Estate.Hub(); w.Engines != lab.EngineFlux || hub.Engine.Shape != lab.ShapeStandalone {
		return hub.Name
	}
	return cluster
}

// places returns the variables with the door and the clusters of engines.
func (w World) places() map[string]any {
	vars := map[string]any{"door": w.Door}
	for _, c := range w.Estate.Clusters {
		vars[engineVariable(c.Name)] = w.engineOf(c.Name)
	}
	return vars
}

// Branch is the branch that engines follow.
const Branch = "main"

// Forge is the lab's Git server.
type Forge interface {
	// Tree reads a branch.
	Tree(ctx context.Context, branch string) (Tree, error)
	// Commit commits on top of a branch and returns the commit hash. A missing branch is created from the engines'
	// branch. It never forces.
	Commit(ctx context.Context, c Change) (string, error)
}

// Branches manages the branches of the Git server.
type Branches interface {
	// Branches maps branch names to tree hashes.
	Branches(ctx context.Context) (map[string]string, error)
	RemoveBranch(ctx context.Context, name string) error
}

// Requests are the pull requests on the Git server. What the server refuses is a *lab.Error with code "refused", or one that says why it could never be merged.
type Requests interface {
	// Open opens a pull request, or returns the number of the one that is open for the same branches.
	Open(ctx context.Context, p Proposal) (int64, error)
	// Look returns number, title, body, author, state, head, base, commit, merge, statuses by check (state, description, author) and comments (author, body).
	Look(ctx context.Context, number int64) (map[string]any, error)
	// Act changes a pull request. Closing one that is not open does nothing.
	Act(ctx context.Context, number int64, a RequestAct) error
}

// Repositories are private repositories beside the estate's on the Git server.
type Repositories interface {
	Exists(ctx context.Context, name string) (bool, error)
	// Create creates a repository, with accounts that see no other one.
	Create(ctx context.Context, name string) (Repository, error)
	// Remove removes a repository and its accounts, if they exist.
	Remove(ctx context.Context, name string) error
}

// Repository is a repository beside the estate's.
type Repository struct {
	URL            string // for engines
	User, Password string // of the account that may read it, or of the bot
	Forge          Forge  // for the account that may also push
	Estate         Forge  // the estate's repository, for the same account
}

// Proposal is a pull request to open.
type Proposal struct {
	Title, Body string
	Head, Base  string // branches
	Bot         bool   // the bot opens it
}

// RequestAct is one change of a pull request.
type RequestAct struct {
	Comment                   string // unless empty
	Check, State, Description string // status of a check, unless Check is empty
	Merge, Close              bool
	Bot                       bool // the bot does it
}

// Tree is a commit and its files.
type Tree struct {
	Commit          string
	Author, Message string // of the commit
	FS              fs.FS
}

// Change is a commit to create.
type Change struct {
	Branch  string
	Author  string // a name; the address is synthetic
	Message string
	Files   map[string]*File // path -> content; nil deletes the file
}

// File is a file in Git.
type File struct {
	Content    []byte
	Executable bool
}

// Clusters accesses the lab's clusters.
type Clusters interface {
	Client(cluster string) (Client, error)
	// Pause freezes a cluster until Resume, as if its network were gone.
	Pause(ctx context.Context, cluster string) error
	Resume(ctx context.Context, cluster string) error
}

// Machines are the nodes of the lab's clusters.
type Machines interface {
	// Reboot restarts a node, or all if it is "".
	Reboot(ctx context.Context, cluster, node string) error
	// Partition disconnects a cluster from the lab's network until Repair.
	Partition(ctx context.Context, cluster string) error
	// Repair makes all nodes run and connects them. It is idempotent.
	Repair(ctx context.Context, cluster string) error
}

// Registry is the lab's registry. Names are NAME:TAG.
type Registry interface {
	// Push pushes an image that this machine has, and returns its digest.
	Push(ctx context.Context, image, as string) (string, error)
	// Digest returns what a tag names, or "".
	Digest(ctx context.Context, name string) (string, error)
	// Tag makes a tag name what the registry has of a digest, or removes it if that is "". It is idempotent.
	Tag(ctx context.Context, name, digest string) error
}

// Client is the client of one cluster.
type Client struct {
	Dynamic dynamic.Interface
	Mapper  meta.RESTMapper
	// Logs reads a container's log. It may be nil.
	Logs func(ctx context.Context, namespace, pod string, o *corev1.PodLogOptions) ([]byte, error)
}

// Engine is the GitOps engine, in terms that all engines share.
type Engine interface {
	// Watch reports every application, calls ready, and then reports changes in order until ctx ends. If it returns
	// earlier, its reports may be stale.
	Watch(ctx context.Context, seen func(Application), ready func()) error
	// Registration returns the marks of a cluster.
	Registration(ctx context.Context, cluster string) (Marks, error)
	// Mark changes the marks of a cluster. The next `lab up` treats them as its own.
	Mark(ctx context.Context, cluster string, m Marks) error
	// Settled returns the commit of the estate that is fully synced, or "".
	Settled(ctx context.Context) (string, error)
	// Follow waits until a commit is synced and all applications except but have converged. It calls moved when something is in a state in which it was not before.
	Follow(ctx context.Context, commit string, but []string, moved func()) error
	// Refresh asks the engine to poll Git.
	Refresh(ctx context.Context) error
}

// Application is the observed state of an application.
type Application struct {
	lab.Application
	Gone       bool
	Heals      bool   // selfHeal is enabled
	Definition string // digest of the engine's definition
}

// Marks are labels and annotations of a cluster's registration. In a change, nil removes a key and missing keys are
// kept.
type Marks struct {
	Labels      map[string]*string
	Annotations map[string]*string
}
