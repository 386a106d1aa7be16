package cluster

import (
	"context"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"homelab/lab"
)

// Provider runs clusters, or attaches existing ones. It is safe for concurrent use on different clusters.
type Provider interface {
	// Observe returns the state of the lab's clusters, or of the named ones. An unreachable cluster is part of the state, not an error.
	Observe(ctx context.Context, names ...string) ([]lab.ClusterState, error)
	// Create creates or attaches a cluster.
	Create(ctx context.Context, spec Spec, p lab.Progress) error
	// Start waits until a stopped or unresponsive cluster is ready, starting it if the provider can.
	Start(ctx context.Context, name string, p lab.Progress) error
	// Load loads images into a cluster, if the provider can.
	Load(ctx context.Context, name string, images []lab.Image, p lab.Progress) error
	// Mark records in a cluster that it is the lab's, its inputs and its loaded images.
	Mark(ctx context.Context, name, inputs string, images []string) error
	// Record restores lab's record of a complete cluster.
	Record(ctx context.Context, name, inputs string) error
	// Delete deletes or releases a cluster. A missing cluster is not an error.
	Delete(ctx context.Context, name string) error
	// RESTConfig returns the client configuration of a cluster.
	RESTConfig(name string) (*rest.Config, error)
}

// Networked is a provider that runs its clusters in the lab's network and manages it.
type Networked interface {
	Provider
	HasNetwork(ctx context.Context) (bool, error)
	EnsureNetwork(ctx context.Context) error
	RemoveNetwork(ctx context.Context) error
	Subnet(ctx context.Context) (string, error)
	EnsureSubnet(ctx context.Context, subnet string) error
	// EnsureNamespaces creates the missing ones of a cluster's namespaces and returns them.
	EnsureNamespaces(ctx context.Context, name string, namespaces []string, p lab.Progress) ([]string, error)
	// Introduce configures a cluster's nodes for the lab's registry, Knows reports whether they are.
	Introduce(ctx context.Context, name string, r lab.Registry, p lab.Progress) error
	Knows(ctx context.Context, name string, r lab.Registry) (bool, error)
}

// Set combines the lab's clusters of all providers.
type Set struct {
	Networked
	existing *Existing
}

// NewSet returns the set of the clusters that lab creates and the existing ones.
func NewSet(made Networked, existing *Existing) *Set {
	return &Set{Networked: made, existing: existing}
}

// of returns the provider of a cluster.
func (s *Set) of(name string) Provider {
	if s.existing.has(name) {
		return s.existing
	}
	return s.Networked
}

// Observe returns the state of the lab's clusters, ordered by name.
func (s *Set) Observe(ctx context.Context, names ...string) ([]lab.ClusterState, error) {
	states, err := s.Networked.Observe(ctx, names...)
	if err != nil {
		return nil, err
	}
	attached, err := s.existing.Observe(ctx, names...)
	states = append(states, slices.DeleteFunc(attached, func(a lab.ClusterState) bool {
		return slices.ContainsFunc(states, func(c lab.ClusterState) bool { return c.Name == a.Name })
	})...)
	slices.SortFunc(states, func(a, b lab.ClusterState) int { return strings.Compare(a.Name, b.Name) })
	return states, err
}

// Create creates or attaches a cluster with the provider set in the estate.
func (s *Set) Create(ctx context.Context, spec Spec, p lab.Progress) error {
	if spec.Cluster.Provider == lab.ProviderExisting {
		return s.existing.Create(ctx, spec, p)
	}
	return s.Networked.Create(ctx, spec, p)
}

// Start waits until a cluster is ready.
func (s *Set) Start(ctx context.Context, name string, p lab.Progress) error {
	return s.of(name).Start(ctx, name, p)
}

// Load loads images into a cluster.
func (s *Set) Load(ctx context.Context, name string, images []lab.Image, p lab.Progress) error {
	return s.of(name).Load(ctx, name, images, p)
}

// Mark marks a cluster as the lab's.
func (s *Set) Mark(ctx context.Context, name, inputs string, images []string) error {
	return s.of(name).Mark(ctx, name, inputs, images)
}

// Record restores the record of a complete cluster.
func (s *Set) Record(ctx context.Context, name, inputs string) error {
	return s.of(name).Record(ctx, name, inputs)
}

// Introduce configures the nodes of a cluster for the lab's registry, unless they are someone else's.
func (s *Set) Introduce(ctx context.Context, name string, r lab.Registry, p lab.Progress) error {
	if s.existing.has(name) {
		return nil
	}
	return s.Networked.Introduce(ctx, name, r, p)
}

// Knows reports whether the nodes of a cluster are configured for the lab's registry, as far as lab configures them.
func (s *Set) Knows(ctx context.Context, name string, r lab.Registry) (bool, error) {
	if s.existing.has(name) {
		return true, nil
	}
	return s.Networked.Knows(ctx, name, r)
}

// Delete deletes or releases a cluster.
func (s *Set) Delete(ctx context.Context, name string) error { return s.of(name).Delete(ctx, name) }

// Forget drops lab's record of an attached cluster without touching the cluster.
func (s *Set) Forget(_ context.Context, name string) error { return s.existing.Forget(name) }

// RESTConfig returns the client configuration of a cluster.
func (s *Set) RESTConfig(name string) (*rest.Config, error) { return s.of(name).RESTConfig(name) }
