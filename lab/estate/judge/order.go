package judge

import (
	"fmt"
	"maps"
	"slices"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/finding"
	"homelab/lab/fluxset"
)

// Wave is a sync wave of Argo CD.
type Wave struct {
	Number int
	At     lab.Position
	Folder string // as of lab.Generated; empty for objects of the root, which lab applies together
	Tree   any    // equal for what is synced together

	Addon string // of an ApplicationSet
	Flux  string // its first manifest for Flux, or empty
}

// Dependencies reports clusters that have an addon but not its dependencies.
func Dependencies(e *lab.Estate, order fluxset.Order) (f Findings) {
	for _, c := range e.Clusters {
		for _, addon := range slices.Sorted(maps.Keys(c.Addons)) {
			for _, n := range order[addon] {
				if c.Addons[addon] && !c.Addons[n.Addon] && !n.Optional {
					f.at(finding.DependencyMissing, c.Position("spec.addons."+addon), fmt.Sprintf("addon %s needs %s (%s), which %s does not have", addon, n.Addon, n.At, c.Name),
						fmt.Sprintf("enable %s for the cluster, or use annotation %s if it is optional", n.Addon, fluxset.AfterAnnotation))
				}
			}
		}
	}
	return f
}

// SameOrder reports addons that wait for another in Flux but not in Argo CD. The reverse is fine: waves are coarse.
func SameOrder(order fluxset.Order, waves []Wave) (f Findings) {
	of := map[string][]Wave{}
	for _, w := range waves {
		of[w.Addon] = append(of[w.Addon], w)
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
					if first.Tree == then.Tree && first.Number >= then.Number {
						f.at(finding.OrderDiffers, then.At,
							fmt.Sprintf("%s does not wait for %s in Argo CD (wave %d, and %d at %s), as it does in Flux (%s)", addon, n.Addon, then.Number, first.Number, first.At, n.At),
							fmt.Sprintf("use a later wave in its ApplicationSet: annotations: {%s: \"%d\"}", argo.SyncWave, first.Number+1))
					}
				}
			}
		}
	}
	for _, addon := range slices.Sorted(maps.Keys(of)) {
		with := len(order[addon]) > 0 || slices.ContainsFunc(slices.Concat(slices.Collect(maps.Values(order))...), func(n fluxset.Need) bool { return n.Addon == addon })
		for _, w := range of[addon] {
			if !with && w.Flux != "" && w.Number != 0 {
				f.note(finding.OrderDiffers, w.At, fmt.Sprintf("addon %s is in sync wave %d of Argo CD, but Flux starts it immediately", addon, w.Number), "declare its dependencies in "+w.Flux+": spec.dependsOn of a HelmRelease")
			}
		}
	}
	return f
}

// waits reports whether an addon waits for another in Flux, directly or not.
func waits(order fluxset.Order, addon, other string, seen map[string]bool) bool {
	seen[addon] = true
	return slices.ContainsFunc(order[addon], func(n fluxset.Need) bool {
		return n.Addon == other || !seen[n.Addon] && waits(order, n.Addon, other, seen)
	})
}

// nearest returns the addons that an addon waits for in Flux, skipping those without sets.
func nearest(order fluxset.Order, addon string, of map[string][]Wave, seen map[string]bool) []fluxset.Need {
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
