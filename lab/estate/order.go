package estate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/finding"
	"homelab/lab/fluxset"
	"homelab/lab/strict"
)

// wave is the sync wave of an ApplicationSet in its tree.
type wave struct {
	number int
	at     lab.Position
	tree   tree // zero for objects of the root, which lab applies together
}

func waveOf(t tree, file string, doc *yaml.Node) wave {
	w := wave{at: strict.Position(file, doc), tree: t.folder()}
	if n := strict.Get(doc, "metadata", "annotations", argo.SyncWave); n != nil && t != (tree{}) {
		w.number, _ = strconv.Atoi(n.Value) // like Argo CD, 0 if not a number
		w.at = strict.Position(file, n)
	}
	return w
}

// place sets the wave of an Application.
func (w wave) place(g *lab.Generated) {
	if w.tree != (tree{}) {
		g.Folder, g.Wave = w.tree.key(), w.number
	}
}

// order checks the start order of addons in Flux, and that Argo CD's sync waves agree.
func (l *loader) order() {
	order, problems := fluxset.ReadOrder(l.fsys)
	sets := l.sets
	if l.isFlux() {
		l.problems = append(l.problems, problems...)
		l.missingNeeds(order)
		if len(order) == 0 || !l.exists(lab.RootFile) {
			return
		}
		sets = l.otherEngine().sets
	}
	for _, s := range sets {
		l.estate.Waves = l.estate.Waves || s.wave.number != 0
	}
	l.sameOrder(order, sets)
}

// missingNeeds reports clusters that have an addon but not its dependencies.
func (l *loader) missingNeeds(order fluxset.Order) {
	for _, c := range l.estate.Clusters {
		for _, addon := range slices.Sorted(maps.Keys(c.Addons)) {
			for _, n := range order[addon] {
				if c.Addons[addon] && !c.Addons[n.Addon] && !n.Optional {
					l.at(finding.DependencyMissing, c.Position("spec.addons."+addon), fmt.Sprintf("addon %s needs %s (%s), which %s does not have", addon, n.Addon, n.At, c.Name),
						fmt.Sprintf("enable %s for the cluster, or use annotation %s if it is optional", n.Addon, fluxset.AfterAnnotation))
				}
			}
		}
	}
}

// sameOrder reports addons that wait for another in Flux but not in Argo CD. The reverse is fine: waves are coarse.
func (l *loader) sameOrder(order fluxset.Order, sets []set) {
	of := map[string][]wave{}
	for _, s := range sets {
		of[s.addon] = append(of[s.addon], s.wave)
	}
	for _, addon := range slices.Sorted(maps.Keys(order)) {
		if len(of[addon]) == 0 {
			continue
		}
		for _, n := range nearest(order, addon, of, map[string]bool{}) {
			if waits(order, n.Addon, addon, map[string]bool{}) {
				continue // no wave suits a cycle
			}
			for _, first := range of[n.Addon] {
				for _, then := range of[addon] {
					if first.tree == then.tree && first.number >= then.number {
						l.at(finding.OrderDiffers, then.at,
							fmt.Sprintf("%s does not wait for %s in Argo CD (wave %d, and %d at %s), as it does in Flux (%s)", addon, n.Addon, then.number, first.number, first.at, n.At),
							fmt.Sprintf("use a later wave in its ApplicationSet: annotations: {%s: \"%d\"}", argo.SyncWave, first.number+1))
					}
				}
			}
		}
	}
	for _, a := range slices.Sorted(maps.Keys(of)) {
		with := len(order[a]) > 0
		for _, needs := range order {
			with = with || slices.ContainsFunc(needs, func(n fluxset.Need) bool { return n.Addon == a })
		}
		if files := l.manifests(fluxset.Dir(a)); !with && len(files) > 0 {
			for _, w := range of[a] {
				if w.number != 0 {
					l.note(finding.OrderDiffers, w.at, fmt.Sprintf("addon %s is in sync wave %d of Argo CD, but Flux starts it immediately", a, w.number), "declare its dependencies in "+files[0]+": spec.dependsOn of a HelmRelease")
				}
			}
		}
	}
}

// waits reports whether an addon waits for another in Flux, directly or not.
func waits(order fluxset.Order, addon, other string, seen map[string]bool) bool {
	seen[addon] = true
	return slices.ContainsFunc(order[addon], func(n fluxset.Need) bool {
		return n.Addon == other || !seen[n.Addon] && waits(order, n.Addon, other, seen)
	})
}

// nearest returns the addons that an addon waits for in Flux, skipping those without sets.
func nearest(order fluxset.Order, addon string, of map[string][]wave, seen map[string]bool) []fluxset.Need {
	seen[addon] = true
	var list []fluxset.Need
	for _, n := range order[addon] {
		switch {
		case len(of[n.Addon]) > 0:
			list = append(list, n)
		case !seen[n.Addon]:
			list = append(list, nearest(order, n.Addon, of, seen)...)
		}
	}
	return list
}
