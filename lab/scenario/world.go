package scenario

import (
	"context"
	"io/fs"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"

	"homelab/lab"
)

// World is the lab that a scenario is played on.
type World struct {
	Lab      string
	Estate   *lab.Estate // as the lab was made from it
	Engines  lab.EngineType
	Forge    Forge
	Branches Branches
	Clusters Clusters
	Engine   Engine
}

// Branch is the branch that engines follow.
const Branch = "main"

// Forge is the lab's Git server.
type Forge interface {
	// Tree reads a branch.
	Tree(ctx context.Context, branch string) (Tree, error)
	// Commit puts changes on top of a branch, which is made from the engines' branch where it is not there, and returns the commit. It never forces.
	Commit(ctx context.Context, c Change) (string, error)
}

// Branches is the rest of the Git server.
type Branches interface {
	// Branches maps names to the object names of their trees.
	Branches(ctx context.Context) (map[string]string, error)
	RemoveBranch(ctx context.Context, name string) error
}

// Tree is a commit with its files.
type Tree struct {
	Commit string
	FS     fs.FS
}

// Change is a commit that is to be made.
type Change struct {
	Branch  string
	Author  string // a name; the address is made up
	Message string
	Files   map[string]*File // path -> content; nil removes the file
}

// File is a file as Git keeps it.
type File struct {
	Content    []byte
	Executable bool
}

// Clusters leads into the lab's clusters.
type Clusters interface {
	Client(cluster string) (Client, error)
	// Pause freezes a cluster, as if its network were gone, until Resume.
	Pause(ctx context.Context, cluster string) error
	Resume(ctx context.Context, cluster string) error
}

// Client speaks to one cluster.
type Client struct {
	Dynamic dynamic.Interface
	Mapper  meta.RESTMapper
}

// Engine is the GitOps engine, in words that all engines share.
type Engine interface {
	// Watch tells of every application as it is, calls ready, and goes on telling of changes, in order, until ctx ends. Where it cannot go on, it returns before
	// that: what it told then need not be so any more.
	Watch(ctx context.Context, seen func(Application), ready func()) error
	// Registration is what the engine knows of a cluster.
	Registration(ctx context.Context, cluster string) (Marks, error)
	// Mark changes what the engine knows of a cluster, as lab itself would: the next `lab up` takes it for its own.
	Mark(ctx context.Context, cluster string, m Marks) error
	// Settled is the commit of the estate that the engine has taken over as a whole; empty when it has not, or not yet.
	Settled(ctx context.Context) (string, error)
	// Follow waits until the engine has taken over a commit, and every application but those named is as Git wants it.
	Follow(ctx context.Context, commit string, but []string) error
	// Refresh asks the engine to look at Git now.
	Refresh(ctx context.Context) error
}

// Application is what is seen of an application.
type Application struct {
	lab.Application
	Gone       bool
	Heals      bool   // drift is reverted
	Definition string // digest of how the engine has it defined
}

// Marks are labels and annotations of a cluster's registration. In a change, nil removes one and what is not named stays.
type Marks struct {
	Labels      map[string]*string
	Annotations map[string]*string
}
