package fluxset

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab/appset"
	"homelab/lab/flux"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// class is a StorageClass in a cluster.
type class struct{ remote, name string }

// unbound finds the objects for which applications of mounted repositories wait and that cannot become ready: claims that nothing binds, pods that fit no node or lack an object.
func (x *expander) unbound(d definers) {
	for _, list := range [][]Application{x.Roots, x.Applications} {
		for i := range list {
			a := &list[i]
			a.Unbound = nil
			if !a.mounted || x.Foreign != nil && x.Foreign(a.Cluster) {
				continue
			}
			var nodes []map[string]string
			if x.Nodes != nil {
				nodes = x.Nodes(a.Cluster)
			}
			for _, o := range a.Objects {
				if ignored(o.Node) || !a.waitsForAll && !slices.Contains(a.checks, objectOf(o.Node)) {
					continue
				}
				u := Undefined{of: objectOf(o.Node)}
				u.Why = "waits for " + u.of.kind + " " + u.of.name
				switch {
				case paused(o):
					u.Why += ", which is paused: spec.paused"
				case x.pending(&u, *a, o.Node, d), x.lacks(&u, *a, o, d), unplaced(&u, o, nodes):
					for _, key := range d.other[a.Remote] {
						if !d.requires(key, step{a.Key(), complete}) && !slices.Contains(u.By, key) {
							u.By = append(u.By, key)
						}
					}
				default:
					continue
				}
				if a.Unbound = append(a.Unbound, u); len(u.By) == 0 {
					a.LeftOut = cmp.Or(a.LeftOut, u.Why)
				}
			}
		}
	}
}

// provisioners returns what provides volumes of the classes in manifests: empty for lab's, and for those with volumes in manifests.
func (x *expander) provisioners() map[class]string {
	of := map[class]string{}
	for _, a := range slices.Concat(x.Roots, x.Applications) {
		for _, o := range a.Objects {
			switch strict.Text(o.Node, "kind") {
			case "StorageClass":
				c := class{a.Remote, strict.Text(o.Node, "metadata", "name")}
				switch by, known := of[c]; {
				case needs.IsLocal(o.Node):
					of[c] = ""
				case !known || by != "":
					of[c] = strict.Text(o.Node, "provisioner")
				}
			case "PersistentVolume":
				of[class{a.Remote, strict.Text(o.Node, "spec", "storageClassName")}] = ""
			}
		}
	}
	return of
}

// Unready returns the objects of a release's chart with which it never becomes ready: rejected ones, claims that nothing binds, and pods that fit none of the nodes.
func (x Expansion) Unready(a Application, r Release, objects []render.Document, nodes []map[string]string) []Undefined {
	d, at := x.definers, step{a.Key(), installed}
	var list []Undefined
	for _, o := range objects {
		u := Undefined{of: objectOf(o.Node)}
		if why := needs.Rejected(o); why != "" {
			u.Why = fmt.Sprintf("has %s %s, which is %s", u.of.kind, u.of.name, why)
			list = append(list, u)
			continue
		}
		u.Why = "waits for " + u.of.kind + " " + u.of.name
		never := false
		switch u.of.kind {
		case "PersistentVolumeClaim":
			never, _ = d.unbindable(&u, r.Remote, at, strict.Get(o.Node, "spec"))
		case "StatefulSet":
			never = d.unmade(&u, r.Remote, at, o.Node)
		}
		if !never && !unplaced(&u, o, nodes) {
			continue
		}
		for _, key := range d.other[r.Remote] {
			if !d.requires(key, at) && !slices.Contains(u.By, key) {
				u.By = append(u.By, key)
			}
		}
		list = append(list, u)
	}
	return list
}

// lacks reports whether the pods of a workload read an object that no manifest contains. What has a role for it and some releases may create it.
func (x *expander) lacks(u *Undefined, a Application, o render.Document, d definers) bool {
	for _, object := range needs.Reads([]render.Document{o}, "").Read {
		kind, namespace, name := needs.Split(object)
		if kind == "Namespace" || namespace == flux.Namespace || x.Has(Read{Kind: kind, Namespace: namespace, Name: name, Cluster: a.Remote}) {
			continue
		}
		u.Why += ", whose " + object + " nothing available creates"
		for key, other := range d.steps.apps {
			if x.MayCreate(*other, a.Remote, kind, namespace) && !d.requires(key, step{a.Key(), complete}) {
				u.By = append(u.By, key)
			}
		}
		slices.Sort(u.By)
		return true
	}
	return false
}

// unplaced reports whether the pods of a workload fit none of the nodes.
func unplaced(u *Undefined, o render.Document, nodes []map[string]string) bool {
	need := needs.Unplaced(o.Node, nodes)
	if need != "" {
		u.Why += ", which needs " + need
	}
	return need != ""
}

// paused reports whether a Deployment never gets its pods. Flux considers a suspended Job ready.
func paused(o render.Document) bool {
	return strict.Text(o.Node, "kind") == "Deployment" && strict.Text(o.Node, "spec", "paused") == "true" && !needs.Idle(o)
}

// MayCreate reports whether an application may create an object of Kubernetes' in a namespace that is not in its manifests: with a role for it, or with a release whose
// chart is elsewhere or mentions the kind.
func (w World) MayCreate(a Application, remote, kind, namespace string) bool {
	return a.Remote == remote && needs.Reads(a.Objects, "").More || slices.ContainsFunc(a.Releases, func(r Release) bool {
		return r.Remote == remote && (r.Folder == "" || namespace == "" || r.TargetNamespace == namespace) && w.mentions(r, "kind: "+kind)
	})
}

// mentions reports whether a release's chart is elsewhere or mentions a text.
func (w World) mentions(r Release, text string) bool {
	if r.Folder == "" || r.Artifact {
		return true
	}
	fsys, _, err := w.Repository(r.URL, r.Revision)
	return err != nil || Mentions(fsys, r.Folder, text)
}

// Mentions reports whether the files of a chart mention a text.
func Mentions(fsys fs.FS, chart, text string) bool {
	return render.Mentions(render.Source{FS: fsys, Source: appset.Source{Path: chart, Helm: &appset.Helm{}}}, text)
}

// mentions reports whether a text is part of a node.
func mentions(n *yaml.Node, text string) bool {
	return strings.Contains(n.Value, text) || slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return mentions(c, text) })
}

// pending reports whether a PersistentVolumeClaim is never bound, or one of those that a StatefulSet makes.
func (x *expander) pending(u *Undefined, a Application, o *yaml.Node, d definers) bool {
	switch strict.Text(o, "kind") {
	case "PersistentVolumeClaim":
		never, local := d.unbindable(u, a.Remote, step{a.Key(), complete}, strict.Get(o, "spec"))
		return never || local && x.unused(u, a, o, d)
	case "StatefulSet":
		return d.unmade(u, a.Remote, step{a.Key(), complete}, o)
	}
	return false
}

// unmade reports whether a claim that a StatefulSet makes is never bound.
func (d definers) unmade(u *Undefined, remote string, at step, o *yaml.Node) bool {
	for _, claim := range items(strict.Get(o, "spec", "volumeClaimTemplates")) {
		of := Undefined{Why: u.Why + " with a volume"}
		if never, _ := d.unbindable(&of, remote, at, strict.Get(claim, "spec")); never && !needs.Idle(render.Document{Node: o}) {
			u.Why, u.By = of.Why, of.By
			return true
		}
	}
	return false
}

// unbindable reports whether nothing ever provides a volume for a claim that a step waits for, and whether lab's class does. Workloads that mention a provisioner may be it.
func (d definers) unbindable(u *Undefined, remote string, at step, claim *yaml.Node) (never, local bool) {
	of := strict.Get(claim, "storageClassName")
	name := strict.Text(claim, "storageClassName")
	by, defined := d.provisioners[class{remote, name}]
	switch {
	case defined && by == "" || strict.Text(claim, "volumeName") != "":
		return false, false
	case by == needs.Provisioner:
		u.Why += ", whose StorageClass is not bound by WaitForFirstConsumer"
		return true, false
	case defined:
		u.Why += fmt.Sprintf(" of provisioner %s, which nothing available runs", by)
		for key, other := range d.steps.apps {
			if other.Remote == remote && slices.ContainsFunc(other.Objects, func(o render.Document) bool { return runs(o) && mentions(o.Node, by) }) && !d.requires(key, at) {
				u.By = append(u.By, key)
			}
		}
		slices.Sort(u.By)
		return true, false
	case of == nil || strict.IsNull(of) || name == needs.DefaultClass:
		if mode := needs.SharedMode(claim); mode != "" {
			u.Why += ", but lab's StorageClass has no " + mode
			return true, true
		}
		return false, true
	case name == "":
		u.Why += " without a StorageClass, for which nothing available has a PersistentVolume"
		return true, false
	}
	u.Why += fmt.Sprintf(" of StorageClass %s, which nothing available defines", name)
	return true, false
}

// unused reports whether a claim of lab's class remains pending until a pod uses it. A release in its namespace may have one.
func (x *expander) unused(u *Undefined, a Application, claim *yaml.Node, d definers) bool {
	of := objectOf(claim)
	for key, user := range d.steps.apps {
		switch {
		case user.Remote != a.Remote || slices.Contains(d.steps.closure(step{key, applied}), step{a.Key(), complete}):
		case slices.Contains(needs.Reads(user.Objects, "").Read, "PersistentVolumeClaim "+of.namespace+"/"+of.name) && d.reaches(step{key, applied}):
			return false
		}
	}
	for key, user := range d.steps.apps {
		if !slices.ContainsFunc(user.Releases, func(r Release) bool {
			return r.Remote == a.Remote && r.TargetNamespace == of.namespace && x.mentions(r, "persistentVolumeClaim")
		}) {
			continue
		}
		if key == a.Key() {
			return false
		}
		if !d.requires(key, step{a.Key(), complete}) {
			u.By = append(u.By, key)
		}
	}
	slices.Sort(u.By)
	u.Why += ", which no pod uses"
	return true
}
