package clustertest

import (
	"fmt"
	"slices"
	"time"

	"homelab/lab"
)

// change applies to a cluster of the fake's lab, given by its name or that of its node, if it exists.
func (f *Fake) change(name string, change func(*instance)) {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	for key, m := range f.engine.clusters {
		if m.lab == f.lab && (m.name == name || key+"-control-plane" == name) {
			change(m)
		}
	}
}

// Stop stops a cluster, as a machine restart does.
func (f *Fake) Stop(name string) {
	f.change(name, func(m *instance) { m.running, m.paused = false, false })
}

// Pause freezes a cluster.
func (f *Fake) Pause(name string) { f.change(name, func(m *instance) { m.paused = m.running }) }

// Silence sets whether a cluster's API is unresponsive.
func (f *Fake) Silence(name string, silent bool) {
	f.change(name, func(m *instance) { m.silent = silent })
}

// Expire ends the certificates of a cluster at a time, which may have passed.
func (f *Fake) Expire(name string, at time.Time) { f.change(name, func(m *instance) { m.ends = at }) }

// Unmark removes the marks in a cluster and its node.
func (f *Fake) Unmark(name string) { f.change(name, func(m *instance) { m.mark, m.file = nil, "" }) }

// Appear creates a node, as the delayed effect of a killed run. The node is unreadable for the given number of observations.
func (f *Fake) Appear(name string, unread int) {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	f.engine.ids++
	id := fmt.Sprintf("id%d", f.engine.ids)
	f.engine.clusters[lab.KindName(f.lab, name)] = &instance{lab: f.lab, name: name, id: id, born: id, running: true, unread: unread}
}

// Lose deletes a cluster behind lab's back.
func (f *Fake) Lose(name string) {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	delete(f.engine.clusters, lab.KindName(f.lab, name))
}

// Take copies the clusters of these nodes. The returned function recreates them, stopped, in containers with new ids, which it returns by name.
func (f *Fake) Take(nodes []string) func() (map[string]string, error) {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	taken := map[string]instance{}
	for key, m := range f.engine.clusters {
		if slices.Contains(nodes, key+"-control-plane") {
			taken[key] = *m
		}
	}
	return func() (map[string]string, error) {
		f.engine.mu.Lock()
		defer f.engine.mu.Unlock()
		ids := map[string]string{}
		for key, m := range taken {
			if f.engine.clusters[key] != nil {
				return nil, fmt.Errorf("the container name %s-control-plane is already in use", key)
			}
			f.engine.ids++
			m.id, m.running, m.paused, m.silent = fmt.Sprintf("id%d", f.engine.ids), false, false, false
			f.engine.clusters[key] = &m
			ids[key+"-control-plane"] = m.id
		}
		return ids, nil
	}
}

// Identity returns the unique identity of a cluster, which only a snapshot can restore, or "" if it does not exist.
func (f *Fake) Identity(name string) (id string) {
	f.change(name, func(m *instance) { id = m.born })
	return id
}

// Outside returns an existing cluster and the lab that it is attached to.
func (f *Fake) Outside(name string) string {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	m := f.engine.outside[name]
	switch {
	case m == nil:
		return "absent"
	case m.lab != "":
		return m.born + " in " + m.lab
	}
	return m.born
}

// Whole returns the identities of the clusters that were ever fully marked.
func (f *Fake) Whole() map[string]string {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	whole := map[string]string{}
	for _, m := range f.engine.clusters {
		if m.lab == f.lab && m.mark != nil {
			whole[m.name] = m.born
		}
	}
	return whole
}

// Images returns the images of a cluster.
func (f *Fake) Images(name string) (images []lab.Image) {
	f.change(name, func(m *instance) { images = slices.Clone(m.images) })
	return images
}

// Contents returns the lab's network and clusters, one per line, without ids that differ each time.
func (f *Fake) Contents() []string {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	var lines []string
	if subnet := f.engine.networks[f.lab]; subnet != "" {
		lines = append(lines, "network "+subnet)
	}
	for _, m := range f.engine.clusters {
		if m.lab != f.lab {
			continue
		}
		refs := make([]string, 0, len(m.images))
		for _, i := range m.images {
			refs = append(refs, i.Ref)
		}
		slices.Sort(refs)
		marked := mark{}
		if m.mark != nil {
			marked = *m.mark
		}
		lines = append(lines, fmt.Sprintf("cluster %s: answers %t, holds %s, marked %+v and %s", m.name, m.answers(), refs, marked, m.file))
	}
	slices.Sort(lines)
	return lines
}

// RemoveNamespaces removes all namespaces of a cluster.
func (f *Fake) RemoveNamespaces(name string) { f.change(name, func(m *instance) { m.spaces = nil }) }
