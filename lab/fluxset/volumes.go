package fluxset

import (
	"cmp"
	"fmt"
	"slices"

	"homelab/lab/strict"
)

// defaultClass is the StorageClass of lab's nodes.
const defaultClass = "standard"

// class is a StorageClass in a cluster.
type class struct{ remote, name string }

// unbound finds the PersistentVolumeClaims for which applications of mounted repositories wait, and whose StorageClass or volumes no manifests define.
func (x *expander) unbound(d definers) {
	defined := map[class]bool{}
	for _, list := range [][]Application{x.Roots, x.Applications} {
		for _, a := range list {
			for _, o := range a.Objects {
				switch strict.Text(o.Node, "kind") {
				case "StorageClass":
					defined[class{a.Remote, strict.Text(o.Node, "metadata", "name")}] = true
				case "PersistentVolume":
					defined[class{a.Remote, strict.Text(o.Node, "spec", "storageClassName")}] = true
				}
			}
		}
	}
	for _, list := range [][]Application{x.Roots, x.Applications} {
		for i := range list {
			a := &list[i]
			a.Unbound = nil
			if !a.mounted || x.Foreign != nil && x.Foreign(a.Cluster) {
				continue
			}
			for _, o := range a.Objects {
				name := strict.Text(o.Node, "spec", "storageClassName")
				if strict.Text(o.Node, "kind") != "PersistentVolumeClaim" || name == "" || name == defaultClass || defined[class{a.Remote, name}] ||
					strict.Text(o.Node, "spec", "volumeName") != "" || !a.waitsForAll && !slices.Contains(a.checks, objectOf(o.Node)) {
					continue
				}
				u := Undefined{of: objectOf(o.Node), Why: fmt.Sprintf("waits for PersistentVolumeClaim %s of StorageClass %s, which nothing available defines", strict.Text(o.Node, "metadata", "name"), name)}
				for _, key := range d.other[a.Remote] {
					if !d.requires(key, step{a.Key(), complete}) {
						u.By = append(u.By, key)
					}
				}
				if a.Unbound = append(a.Unbound, u); len(u.By) == 0 {
					a.LeftOut = cmp.Or(a.LeftOut, u.Why)
				}
			}
		}
	}
}
