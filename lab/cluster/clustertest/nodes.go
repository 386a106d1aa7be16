package clustertest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"homelab/lab"
	"homelab/lab/state"
)

// EnsureNamespaces adds the missing ones of namespaces.
func (f *Fake) EnsureNamespaces(_ context.Context, name string, namespaces []string, _ lab.Progress) ([]string, error) {
	if err := f.fail("ensure-namespaces", name); err != nil {
		return nil, err
	}
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	m := f.engine.clusters[lab.KindName(f.lab, name)]
	if m == nil || !m.answers() {
		return nil, fmt.Errorf("cluster %s does not answer", name)
	}
	var made []string
	for _, ns := range namespaces {
		if !slices.Contains(m.spaces, ns) {
			m.spaces, made = append(m.spaces, ns), append(made, ns)
		}
	}
	return made, nil
}

// Introduce configures the nodes of a running cluster for a registry.
func (f *Fake) Introduce(_ context.Context, name string, r lab.Registry, _ lab.Progress) error {
	if err := f.fail("introduce", name); err != nil {
		return err
	}
	return f.nodesOf(name, func(m *instance) { m.registry = r })
}

// Knows reports whether the nodes of a running cluster are configured for a registry.
func (f *Fake) Knows(_ context.Context, name string, r lab.Registry) (knows bool, err error) {
	if err := f.fail("knows", name); err != nil {
		return false, err
	}
	err = f.nodesOf(name, func(m *instance) { knows = m.attached || reflect.DeepEqual(m.registry, r) })
	return knows, err
}

// Forgetful makes the nodes of a cluster forget the registry.
func (f *Fake) Forgetful(name string) {
	f.change(name, func(m *instance) { m.registry = lab.Registry{} })
}

func (f *Fake) nodesOf(name string, do func(*instance)) error {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	m := f.engine.clusters[lab.KindName(f.lab, name)]
	if m == nil || !m.running || m.paused {
		return fmt.Errorf("cluster %s does not run", name)
	}
	do(m)
	return nil
}

// Load records images, reporting new ones to p.
func (f *Fake) Load(_ context.Context, name string, images []lab.Image, p lab.Progress) error {
	return f.update("load", name, func(m *instance) error {
		for _, i := range images {
			if !slices.Contains(m.images, i) {
				m.images = append(m.images, i)
				if p != nil {
					p("loading image " + i.Ref)
				}
			}
		}
		return nil
	})
}

// Mark records the cluster's inputs in its three places.
func (f *Fake) Mark(ctx context.Context, name, inputs string, images []string) error {
	err := f.update("mark", name, func(m *instance) error {
		if !m.answers() {
			return errors.New("the API does not answer")
		}
		if !m.attached {
			m.file = inputs
		}
		return nil
	})
	if err != nil {
		return err
	}
	words := slices.Compact(slices.Sorted(slices.Values(images)))
	if err := f.update("mark/api", name, func(m *instance) error { m.mark = &mark{inputs, words}; return nil }); err != nil {
		return err
	}
	if err := f.fail("mark/record", name); err != nil {
		return err
	}
	return f.Record(ctx, name, inputs)
}

// Record records that a cluster is complete.
func (f *Fake) Record(_ context.Context, name, inputs string) error {
	return f.update("record", name, func(m *instance) error {
		if m.attached {
			return f.state.SaveCluster(name, state.Cluster{Attached: true, Whole: true, Inputs: inputs})
		}
		return f.state.SaveCluster(name, state.Cluster{Nodes: []string{m.id}, Whole: true, Inputs: inputs})
	})
}
