package clustertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// HasNetwork reports whether the lab's network exists.
func (f *Fake) HasNetwork(context.Context) (bool, error) {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	return f.engine.networks[f.lab] != "", f.fail("network", "")
}

// EnsureNetwork creates the lab's network.
func (f *Fake) EnsureNetwork(context.Context) error {
	if err := f.fail("network", ""); err != nil {
		return err
	}
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	f.engine.network(f.lab, "")
	return nil
}

// network creates a missing network, with a subnet if given and free.
func (e *Engine) network(lab, subnet string) {
	if e.networks[lab] != "" {
		return
	}
	taken := slices.Collect(maps.Values(e.networks))
	for n := 18; subnet == "" || slices.Contains(taken, subnet); n++ {
		subnet = fmt.Sprintf("172.%d.0.0/16", n)
	}
	e.networks[lab] = subnet
}

// Subnet returns the subnet of the lab's network.
func (f *Fake) Subnet(context.Context) (string, error) {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	return f.engine.networks[f.lab], f.fail("network", "")
}

// EnsureSubnet ensures that the lab's network has the subnet, replacing a network without clusters.
func (f *Fake) EnsureSubnet(ctx context.Context, subnet string) error {
	if err := f.fail("network", ""); err != nil {
		return err
	}
	if has, err := f.Subnet(ctx); err != nil || has == subnet {
		return err
	}
	_ = f.RemoveNetwork(ctx)
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	f.engine.network(f.lab, subnet)
	return nil
}

// RemoveNetwork removes the lab's network; like Docker it fails while clusters are connected.
func (f *Fake) RemoveNetwork(context.Context) error {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	for _, m := range f.engine.clusters {
		if m.lab == f.lab && !m.attached {
			return errors.New("network has active endpoints")
		}
	}
	delete(f.engine.networks, f.lab)
	return nil
}
