// Package clustertest provides the contract suite of cluster providers, and an in-memory fake.
package clustertest

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/cluster"
	"homelab/lab/state"
)

// Clusters is the interface under test. Consumers declare smaller ones.
type Clusters interface {
	HasNetwork(ctx context.Context) (bool, error)
	EnsureNetwork(ctx context.Context) error
	RemoveNetwork(ctx context.Context) error
	Subnet(ctx context.Context) (string, error)
	EnsureSubnet(ctx context.Context, subnet string) error
	Observe(ctx context.Context, names ...string) ([]lab.ClusterState, error)
	Create(ctx context.Context, spec cluster.Spec, p lab.Progress) error
	Start(ctx context.Context, name string, p lab.Progress) error
	Load(ctx context.Context, name string, images []lab.Image, p lab.Progress) error
	Mark(ctx context.Context, name, inputs string, images []string) error
	Record(ctx context.Context, name, inputs string) error
	Delete(ctx context.Context, name string) error
	EnsureNamespaces(ctx context.Context, name string, namespaces []string, p lab.Progress) ([]string, error)
	Introduce(ctx context.Context, name string, r lab.Registry, p lab.Progress) error
	Knows(ctx context.Context, name string, r lab.Registry) (bool, error)
	Kubeconfig(name string) string
}

var _ Clusters = (*cluster.Kind)(nil)

// Subject is a provider under test.
type Subject struct {
	Clusters Clusters
	Other    Clusters // the same provider for another lab
	NodeRef  string
	Image    lab.Image                                    // to load
	Holds    func(t *testing.T, n string) bool            // reports whether every node has Image
	State    *state.Dir                                   // the lab's
	Stop     func(t *testing.T, node string)              // stops a node, as a machine restart does
	Pause    func(t *testing.T, node string)              // freezes a node
	Silence  func(t *testing.T, node string) (end func()) // makes a node's API unresponsive
	Unmark   func(t *testing.T, node string)              // removes the mark from a node, and from its API if it answers
	Expire   func(t *testing.T, node string)              // ends all certificates of a node, and stops it
	Identity func(t *testing.T, n string) string          // the uid of an object in a cluster
	Limit    time.Duration                                // for one Create
}

// Contract runs the suite. It creates a cluster called dev, and half of one called half.
func Contract(t *testing.T, s Subject) {
	ctx := t.Context()
	spec := cluster.Spec{Cluster: lab.Cluster{Name: "dev", Role: lab.RoleSpoke}, NodeRef: s.NodeRef}

	t.Run("network", func(t *testing.T) {
		has := func(want bool) {
			t.Helper()
			if got, err := s.Clusters.HasNetwork(ctx); err != nil || got != want {
				t.Fatalf("network: %t, %v; want %t", got, err, want)
			}
		}
		has(false)
		must(t, s.Clusters.RemoveNetwork(ctx))
		must(t, s.Clusters.EnsureNetwork(ctx))
		must(t, s.Clusters.EnsureNetwork(ctx))
		has(true)
		if got, err := s.Other.HasNetwork(ctx); err != nil || got {
			t.Fatalf("network of the other lab: %t, %v", got, err)
		}
		must(t, s.Clusters.RemoveNetwork(ctx))
		has(false)
	})

	t.Run("subnet", func(t *testing.T) {
		subnet := func(of Clusters) string {
			t.Helper()
			got, err := of.Subnet(ctx)
			must(t, err)
			return got
		}
		if got := subnet(s.Clusters); got != "" {
			t.Errorf("subnet without a network = %s", got)
		}
		must(t, s.Clusters.EnsureNetwork(ctx))
		first := subnet(s.Clusters)
		must(t, s.Clusters.RemoveNetwork(ctx))
		must(t, s.Other.EnsureNetwork(ctx)) // any free subnet
		must(t, s.Clusters.EnsureNetwork(ctx))
		second := subnet(s.Clusters)
		must(t, s.Clusters.EnsureSubnet(ctx, subnet(s.Other))) // unavailable
		if got := subnet(s.Clusters); got == "" || got == subnet(s.Other) {
			t.Errorf("subnet %s, other lab's %s", got, subnet(s.Other))
		}
		must(t, s.Other.RemoveNetwork(ctx))
		for _, want := range []string{first, first, second} {
			must(t, s.Clusters.EnsureSubnet(ctx, want))
			if got := subnet(s.Clusters); got != want {
				t.Errorf("subnet %s, want %s", got, want)
			}
		}
		must(t, s.Clusters.RemoveNetwork(ctx))
	})

	t.Run("nothing yet", func(t *testing.T) {
		expect(t, s.Clusters, nil)
		must(t, s.Clusters.Delete(ctx, "dev"))
		if err := s.Clusters.Start(ctx, "dev", nil); err == nil {
			t.Error("started a cluster that does not exist")
		}
	})

	t.Run("invalid document", func(t *testing.T) {
		bad := spec
		bad.Cluster.Kind = []byte("nods: []")
		if err := s.Clusters.Create(ctx, bad, nil); err == nil {
			t.Fatal("created from a document with an unknown key")
		}
		expect(t, s.Clusters, nil)
	})

	t.Run("cancelled", func(t *testing.T) {
		half := spec
		half.Cluster.Name = "half"
		cancelled, cancel := context.WithCancel(ctx)
		defer cancel()
		err := s.Clusters.Create(cancelled, half, func(string) { cancel() }) // at the first progress
		if err == nil {
			t.Fatal("a cancelled Create returned nil")
		}
		expect(t, s.Clusters, nil)
	})

	t.Run("create", func(t *testing.T) {
		limited, cancel := context.WithTimeout(ctx, s.Limit)
		defer cancel()
		asked := false
		whole := spec
		whole.Images = func(context.Context) ([]lab.Image, error) { asked = true; return []lab.Image{s.Image}, nil }
		must(t, s.Clusters.Create(limited, whole, nil))
		if !asked || !s.Holds(t, "dev") {
			t.Error("the image was not loaded")
		}
		got := expect(t, s.Clusters, []string{"dev"})[0]
		if !got.Exists || !got.Running || !got.Ready || got.Kubernetes == "" || len(got.Nodes) != 1 {
			t.Errorf("observed %+v", got)
		}
		if got.Made != lab.MadeHalf || got.Inputs != "" || len(got.Images) != 0 {
			t.Errorf("MadeWhole without a mark: %+v", got)
		}
		if info, err := os.Stat(s.Clusters.Kubeconfig("dev")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("kubeconfig: %v, %v; want mode 0600", info, err)
		}
		expect(t, s.Other, nil)
	})

	t.Run("create again", func(t *testing.T) {
		var e *lab.Error
		if err := s.Clusters.Create(ctx, spec, nil); !errors.As(err, &e) || e.Code != cluster.CodeLeftOver {
			t.Fatalf("second Create: %v, want code %s", err, cluster.CodeLeftOver)
		}
		if got := expect(t, s.Clusters, []string{"dev"})[0]; !got.Ready {
			t.Errorf("refused Create changed the cluster: %+v", got)
		}
	})

	t.Run("mark", func(t *testing.T) {
		for _, inputs := range []string{"i1", "i2"} {
			must(t, s.Clusters.Mark(ctx, "dev", inputs, []string{"m"}))
			got := expect(t, s.Clusters, []string{"dev"})[0]
			if got.Made != lab.MadeWhole || !got.Recorded || got.Inputs != inputs || !slices.Equal(got.Images, []string{"m"}) {
				t.Errorf("marked %s/m, observed %+v", inputs, got)
			}
		}
	})

	t.Run("namespaces", func(t *testing.T) {
		for _, want := range [][]string{{"a", "b"}, nil} {
			made, err := s.Clusters.EnsureNamespaces(ctx, "dev", []string{"a", "b"}, nil)
			must(t, err)
			if got := expect(t, s.Clusters, []string{"dev"})[0]; !slices.Equal(made, want) || !slices.Contains(got.Namespaces, "a") || !slices.Contains(got.Namespaces, "b") {
				t.Errorf("made %q, want %q; observed %+v", made, want, got)
			}
		}
	})

	t.Run("registry", func(t *testing.T) {
		for _, password := range []string{"one", "two"} {
			r := lab.Registry{Host: "registry:5000", User: "lab", Password: password}
			if knows, err := s.Clusters.Knows(ctx, "dev", r); err != nil || knows {
				t.Errorf("before: %t, %v", knows, err)
			}
			for range 2 {
				if err := s.Clusters.Introduce(ctx, "dev", r, nil); err != nil {
					t.Fatal(err)
				}
				if knows, err := s.Clusters.Knows(ctx, "dev", r); err != nil || !knows {
					t.Errorf("after: %t, %v", knows, err)
				}
			}
			r.Through = []lab.Upstream{{Host: "docker.io", URL: "https://registry-1.docker.io"}}
			if knows, err := s.Clusters.Knows(ctx, "dev", r); err != nil || knows {
				t.Errorf("with a cache: %t, %v", knows, err)
			}
			if err := s.Clusters.Introduce(ctx, "dev", r, nil); err != nil {
				t.Fatal(err)
			}
			if knows, err := s.Clusters.Knows(ctx, "dev", r); err != nil || !knows {
				t.Errorf("introduced with a cache: %t, %v", knows, err)
			}
		}
	})
	t.Run("load again", func(t *testing.T) {
		loading := false
		must(t, s.Clusters.Load(ctx, "dev", []lab.Image{s.Image}, func(string) { loading = true }))
		if loading {
			t.Error("loaded a present image again")
		}
	})

	t.Run("restart", func(t *testing.T) {
		before := expect(t, s.Clusters, []string{"dev"})[0]
		s.Stop(t, before.Nodes[0])
		if got := expect(t, s.Clusters, []string{"dev"})[0]; got.Running || got.Ready || got.Answers || !got.Exists || got.Made != lab.MadeWhole || got.Inputs != "i2" || got.Fault != "stopped" {
			t.Errorf("stopped, observed %+v", got)
		}
		must(t, os.Remove(s.Clusters.Kubeconfig("dev"))) // lost with the state folder
		must(t, s.Clusters.Start(ctx, "dev", nil))
		if got := expect(t, s.Clusters, []string{"dev"})[0]; !got.Running || !got.Ready || got.Inputs != "i2" || !got.Started.After(before.Started) {
			t.Errorf("started, observed %+v; before %+v", got, before)
		}
		must(t, s.Clusters.Start(ctx, "dev", nil))
	})

	t.Run("pause", func(t *testing.T) {
		s.Pause(t, expect(t, s.Clusters, []string{"dev"})[0].Nodes[0])
		if got := expect(t, s.Clusters, []string{"dev"})[0]; got.Running || got.Answers || got.Made != lab.MadeWhole || got.Fault != "paused" {
			t.Errorf("paused, observed %+v", got)
		}
		must(t, s.Clusters.Start(ctx, "dev", nil))
		if got := expect(t, s.Clusters, []string{"dev"})[0]; !got.Ready {
			t.Errorf("unpaused, observed %+v", got)
		}
	})

	t.Run("silence", func(t *testing.T) {
		end := s.Silence(t, expect(t, s.Clusters, []string{"dev"})[0].Nodes[0])
		defer end()
		if got := expect(t, s.Clusters, []string{"dev"})[0]; !got.Running || got.Answers || got.Made != lab.MadeWhole {
			t.Errorf("not answering: observed %+v", got)
		}
	})
	must(t, s.Clusters.Start(ctx, "dev", nil))

	t.Run("certificates", func(t *testing.T) {
		look := func() lab.ClusterState { t.Helper(); return expect(t, s.Clusters, []string{"dev"})[0] }
		canary := s.Identity(t, "dev")
		s.Expire(t, look().Nodes[0])
		must(t, s.Clusters.Start(ctx, "dev", nil))
		got := look()
		if !got.Ready || got.Made != lab.MadeWhole || got.Renew != "" || got.Ended(time.Now()) {
			t.Errorf("renewed, observed %+v", got)
		}
		if after := s.Identity(t, "dev"); after != canary {
			t.Errorf("uid %s, was %s", after, canary)
		}
		must(t, s.Clusters.Start(ctx, "dev", nil))
		if after := look(); !after.CertificatesEnd.Equal(got.CertificatesEnd) {
			t.Errorf("renewed again: %s, was %s", after.CertificatesEnd, got.CertificatesEnd)
		}
	})

	t.Run("evidence", func(t *testing.T) {
		look := func() lab.ClusterState { t.Helper(); return expect(t, s.Clusters, []string{"dev"})[0] }
		record := s.State.Cluster("dev")
		node := look().Nodes[0]

		must(t, s.State.ForgetCluster("dev")) // lost with the state folder
		if got := look(); got.Made != lab.MadeWhole || got.Recorded || got.Inputs != "i2" {
			t.Errorf("without record: %+v", got)
		}
		s.Stop(t, node)
		if got := look(); got.Made != lab.MadeWhole || got.Inputs != "i2" {
			t.Errorf("without record, stopped: %+v", got)
		}
		stale := record
		stale.Whole = false
		must(t, s.State.SaveCluster("dev", stale)) // as left by an unfinished run
		if got := look(); got.Made != lab.MadeWhole {
			t.Errorf("marked, with a record of its creation: %+v", got)
		}
		must(t, s.Clusters.Start(ctx, "dev", nil))
		must(t, s.Clusters.Record(ctx, "dev", "i2"))
		s.Unmark(t, node)
		if got := look(); got.Made != lab.MadeWhole || got.Inputs != "i2" {
			t.Errorf("record only: %+v", got)
		}
		other := record
		other.Nodes, other.Whole = []string{"another"}, false
		must(t, s.State.SaveCluster("dev", other))
		if got := look(); got.Made != lab.MadeUnknown {
			t.Errorf("record of another container: %+v", got)
		}
		must(t, s.State.ForgetCluster("dev"))
		if got := look(); got.Made != lab.MadeUnknown || got.Inputs != "" {
			t.Errorf("without evidence: %+v", got)
		}
		must(t, s.State.SaveCluster("dev", stale))
		if got := look(); got.Made != lab.MadeHalf {
			t.Errorf("record of its creation only: %+v", got)
		}
		must(t, s.Clusters.Mark(ctx, "dev", "i2", nil))
	})

	t.Run("delete", func(t *testing.T) {
		must(t, s.Other.Delete(ctx, "dev"))
		expect(t, s.Clusters, []string{"dev"})
		must(t, s.Clusters.Delete(ctx, "dev"))
		expect(t, s.Clusters, nil)
		if _, err := os.Stat(s.Clusters.Kubeconfig("dev")); !os.IsNotExist(err) {
			t.Errorf("kubeconfig: %v, want none", err)
		}
		if r := s.State.Cluster("dev"); !r.Began.IsZero() {
			t.Errorf("record: %+v, want none", r)
		}
		must(t, s.Clusters.RemoveNetwork(ctx))
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, c Clusters, names []string) []lab.ClusterState {
	t.Helper()
	states, err := c.Observe(t.Context())
	must(t, err)
	var got []string
	for _, s := range states {
		got = append(got, s.Name)
	}
	if !slices.Equal(got, names) {
		t.Fatalf("clusters %q, want %q", got, names)
	}
	return states
}
