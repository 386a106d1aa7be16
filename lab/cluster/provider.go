package cluster

import (
	"context"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"homelab/lab"
)

// Provider runs clusters, or knows of clusters that somebody else runs. Its methods may be called for different clusters at the same time.
type Provider interface {
	// Observe returns what there is of the lab's clusters, or of the named ones alone. One that cannot be asked is a finding, not an error.
	Observe(ctx context.Context, names ...string) ([]lab.ClusterState, error)
	// Create makes a cluster, or takes one that exists for the lab's.
	Create(ctx context.Context, spec Spec, p lab.Progress) error
	// Start brings a cluster to rest that is stopped or does not answer, or says what is in the way.
	Start(ctx context.Context, name string, p lab.Progress) error
	// Load puts images into a cluster, where the provider can.
	Load(ctx context.Context, name string, images []lab.Image, p lab.Progress) error
	// Mark writes in a cluster that it is the lab's, what it was made from and which images it was given.
	Mark(ctx context.Context, name, inputs string, images []string) error
	// Record writes lab's own record of a cluster that is known to be whole.
	Record(ctx context.Context, name, inputs string) error
	// Delete removes a cluster, or releases one that outlives the lab. One that is absent is no error.
	Delete(ctx context.Context, name string) error
	// RESTConfig is how a cluster is reached from this machine.
	RESTConfig(name string) (*rest.Config, error)
}

// Networked is the provider whose clusters run in the lab's own network, which it keeps.
type Networked interface {
	Provider
	HasNetwork(ctx context.Context) (bool, error)
	EnsureNetwork(ctx context.Context) error
	RemoveNetwork(ctx context.Context) error
	Subnet(ctx context.Context) (string, error)
	EnsureSubnet(ctx context.Context, subnet string) error
}

// Set is a lab's clusters, whoever runs them.
type Set struct {
	Networked
	existing *Existing
}

// NewSet is the clusters that lab makes beside those that exist.
func NewSet(made Networked, existing *Existing) *Set {
	return &Set{Networked: made, existing: existing}
}

// of is the provider of a cluster.
func (s *Set) of(name string) Provider {
	if s.existing.has(name) {
		return s.existing
	}
	return s.Networked
}

// Observe returns what there is of the lab's clusters, by name.
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

// Create has the provider that the estate names make a cluster.
func (s *Set) Create(ctx context.Context, spec Spec, p lab.Progress) error {
	if spec.Cluster.Provider == lab.ProviderExisting {
		return s.existing.Create(ctx, spec, p)
	}
	return s.Networked.Create(ctx, spec, p)
}

// Start brings a cluster to rest.
func (s *Set) Start(ctx context.Context, name string, p lab.Progress) error {
	return s.of(name).Start(ctx, name, p)
}

// Load puts images into a cluster.
func (s *Set) Load(ctx context.Context, name string, images []lab.Image, p lab.Progress) error {
	return s.of(name).Load(ctx, name, images, p)
}

// Mark marks a cluster as the lab's.
func (s *Set) Mark(ctx context.Context, name, inputs string, images []string) error {
	return s.of(name).Mark(ctx, name, inputs, images)
}

// Record records a cluster that is whole.
func (s *Set) Record(ctx context.Context, name, inputs string) error {
	return s.of(name).Record(ctx, name, inputs)
}

// Delete removes a cluster, or releases it.
func (s *Set) Delete(ctx context.Context, name string) error { return s.of(name).Delete(ctx, name) }

// Forget drops lab's record of a cluster that lives on, and touches nothing in it.
func (s *Set) Forget(_ context.Context, name string) error { return s.existing.Forget(name) }

// RESTConfig is how a cluster is reached from this machine.
func (s *Set) RESTConfig(name string) (*rest.Config, error) { return s.of(name).RESTConfig(name) }
