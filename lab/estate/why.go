package estate

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/bridge"
	"homelab/lab/desired"
)

// Model is an estate with what its engine will have.
type Model struct {
	Estate *lab.Estate
	Apps   []desired.App // in the order of Estate.Applications

	loader *loader
}

// Read is Desired, and keeps what Why needs.
func Read(fsys fs.FS, dir, name string, options ...Option) (Model, error) {
	l, err := readAll(fsys, dir, name, options)
	if err != nil {
		return Model{}, err
	}
	return Model{l.estate, l.wanted(), l}, nil
}

// Why returns why a cluster has the applications of an addon, or the application of a name, or why it has none. Without a reason, there is no such addon or application.
func (m Model) Why(addon, cluster string) []desired.Reason {
	l := m.loader
	c, _ := l.estate.Cluster(cluster)
	w := whys{l: l, cluster: c, name: addon}
	for _, g := range l.estate.Applications {
		if w.is(g.Application) {
			w.has = append(w.has, g)
		} else if g.Addon == addon || g.Name == addon {
			w.elsewhere = append(w.elsewhere, g)
		}
	}
	if i := slices.IndexFunc(l.estate.Possible, func(a lab.Application) bool { return a.Name == addon && a.Cluster == cluster }); i >= 0 && len(w.has) == 0 {
		w.name = l.estate.Possible[i].Addon
	}
	if l.isFlux() {
		w.toggle()
	} else {
		w.sets()
	}
	if len(w.has) == 0 {
		w.others()
	}
	return w.reasons
}

// whys collects the reasons.
type whys struct {
	l       *loader
	cluster lab.Cluster
	name    string // of an addon or an application

	has, elsewhere []lab.Generated
	reasons        []desired.Reason
}

func (w *whys) is(a lab.Application) bool {
	return (a.Addon == w.name || a.Name == w.name) && a.Cluster == w.cluster.Name
}

func (w *whys) add(at lab.Position, format string, args ...any) {
	w.reasons = append(w.reasons, desired.Reason{Position: at, Text: fmt.Sprintf(format, args...)})
}

// toggle adds how the cluster's document switches an addon.
func (w *whys) toggle() {
	if _, known := w.l.estate.Addon(w.name); !known {
		return
	}
	at := w.cluster.Position("spec.addons." + w.name)
	switch on, set := w.cluster.Addons[w.name]; {
	case set:
		w.add(at, "spec.addons.%s of %s is %t", w.name, w.cluster.Name, on)
	case len(w.has) == 0:
		w.add(at, "spec.addons of %s does not have %s", w.cluster.Name, w.name)
	}
}

// sets adds what the generators of ApplicationSets require of the cluster.
func (w *whys) sets() {
	labels := map[string]string{}
	for _, c := range registrations(w.l.estate, w.l.estate.Clusters) {
		if c.Name == w.cluster.Name {
			labels = c.Labels
		}
	}
	for _, s := range w.l.sets {
		makes := slices.ContainsFunc(w.has, func(g lab.Generated) bool { return w.madeBy(g, s) })
		if s.addon != w.name && s.Name != w.name && !makes && !slices.ContainsFunc(w.elsewhere, func(g lab.Generated) bool { return w.madeBy(g, s) }) {
			continue
		}
		if slices.ContainsFunc(w.l.estate.UnknownSets, func(u lab.UnknownSet) bool { return u.Name == s.Name }) {
			w.add(lab.Position{File: s.File}, "only the running engine knows what ApplicationSet %s generates", s.Name)
			continue
		}
		requirements := s.Requirements(labels)
		unmet := 0
		for _, r := range requirements {
			if r.Met || r.Open {
				continue
			}
			unmet++
			if !makes {
				w.add(r.Position, "ApplicationSet %s selects clusters with %s", s.Name, r.Text)
				w.label(r, labels)
			}
		}
		switch {
		case makes:
			for _, r := range requirements {
				if r.Met {
					w.add(r.Position, "ApplicationSet %s selects clusters with %s", s.Name, r.Text)
					w.label(r, labels)
				}
			}
		case unmet > 0:
		case len(requirements) > 0 || len(s.Selectors()) > 0:
			w.add(w.generators(s), "the clusters generators of ApplicationSet %s select %s, and its generators together yield nothing for it", s.Name, w.cluster.Name)
		default:
			w.add(w.generators(s), "the generators of ApplicationSet %s yield nothing for %s", s.Name, w.cluster.Name)
		}
	}
}

func (w *whys) generators(s set) lab.Position {
	a, _ := w.l.estate.Addon(s.addon)
	if at := a.Position("generators"); at.File == s.File {
		return at
	}
	return lab.Position{File: s.File}
}

// madeBy reports whether a set generates an application.
func (w *whys) madeBy(g lab.Generated, s set) bool {
	return slices.ContainsFunc(w.l.apps, func(a desired.App) bool { return a.Name == g.Name && a.Set == s.Name })
}

// label adds what the cluster has for a label that a selector reads.
func (w *whys) label(r appset.Requirement, labels map[string]string) {
	value, has := labels[r.Key]
	at := lab.Position{File: w.cluster.File}
	if !has {
		addon, is := strings.CutPrefix(r.Key, lab.EnableLabel(""))
		if is {
			at = w.cluster.Position("spec.addons")
			w.add(at, "%s has no label %s: spec.addons does not have %s", w.cluster.Name, r.Key, strings.ReplaceAll(addon, "_", "-"))
			return
		}
		w.add(at, "%s has no label %s", w.cluster.Name, r.Key)
		return
	}
	if b := w.l.registered(w.cluster).Labels[r.Key]; b.At.File != "" {
		at = b.At
	}
	w.add(at, "%s has %s=%s", w.cluster.Name, r.Key, value)
}

// registered returns the registration of a cluster with the positions of its labels and annotations, once the estate is loaded.
func (l *loader) registered(c lab.Cluster) lab.Registration {
	reg, known := l.registrations[c.Name]
	if !known {
		reg = bridge.Registered(l.estate, c, l.inputs())
		l.registrations[c.Name] = reg
	}
	return reg
}

// others adds where the clusters that have it have it from.
func (w *whys) others() {
	if len(w.elsewhere) == 0 {
		return
	}
	var clusters []string
	for _, g := range w.elsewhere {
		if !slices.Contains(clusters, g.Cluster) {
			clusters = append(clusters, g.Cluster)
		}
	}
	w.add(w.elsewhere[0].At, "there is one for: %s", strings.Join(clusters, ", "))
}
