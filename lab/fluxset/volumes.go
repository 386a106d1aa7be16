package fluxset

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// class is a StorageClass in a cluster.
type class struct{ remote, name string }

// unbound finds the objects for which applications of mounted repositories wait and that cannot become ready: claims that nothing binds, pods that fit no node or lack an object.
func (x *expander) unbound(d definers) {
	provisioners := map[class]string{} // empty for lab's, and with volumes in manifests
	lists := [][]Application{x.Roots, x.Applications}
	for _, list := range lists {
		for _, a := range list {
			for _, o := range a.Objects {
				switch strict.Text(o.Node, "kind") {
				case "StorageClass":
					of := class{a.Remote, strict.Text(o.Node, "metadata", "name")}
					switch by, known := provisioners[of]; {
					case render.IsLocal(o.Node):
						provisioners[of] = ""
					case !known || by != "":
						provisioners[of] = strict.Text(o.Node, "provisioner")
					}
				case "PersistentVolume":
					provisioners[class{a.Remote, strict.Text(o.Node, "spec", "storageClassName")}] = ""
				}
			}
		}
	}
	for _, list := range lists {
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
				if !a.waitsForAll && !slices.Contains(a.checks, objectOf(o.Node)) {
					continue
				}
				u := Undefined{of: objectOf(o.Node)}
				u.Why = "waits for " + u.of.kind + " " + u.of.name
				if !x.pending(&u, *a, o.Node, provisioners, d) && !x.lacks(&u, *a, o, d) && !unplaced(&u, o, nodes) {
					continue
				}
				for _, key := range d.other[a.Remote] {
					if !d.requires(key, step{a.Key(), complete}) && !slices.Contains(u.By, key) {
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

// lacks reports whether the pods of a workload read an object that no manifest contains. What has a role for it and some releases may create it.
func (x *expander) lacks(u *Undefined, a Application, o render.Document, d definers) bool {
	for _, object := range render.Reads([]render.Document{o}, "").Read {
		kind, namespace, name := render.Split(object)
		if kind == "Namespace" || namespace == lab.FluxNamespace || x.Has(Read{Kind: kind, Namespace: namespace, Name: name, Cluster: a.Remote}) {
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
	need := render.Unplaced(o.Node, nodes)
	u.Why += ", which needs " + need
	return need != ""
}

// MayCreate reports whether an application may create an object of Kubernetes' in a namespace that is not in its manifests: with a role for it, or with a release whose
// chart is elsewhere or mentions the kind.
func (w World) MayCreate(a Application, remote, kind, namespace string) bool {
	return a.Remote == remote && render.Reads(a.Objects, "").More || slices.ContainsFunc(a.Releases, func(r Release) bool {
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

// pending reports whether a PersistentVolumeClaim is never bound. Workloads that mention a provisioner may be it.
func (x *expander) pending(u *Undefined, a Application, claim *yaml.Node, provisioners map[class]string, d definers) bool {
	name := strict.Text(claim, "spec", "storageClassName")
	by, defined := provisioners[class{a.Remote, name}]
	switch {
	case strict.Text(claim, "kind") != "PersistentVolumeClaim" || defined && by == "" || strict.Text(claim, "spec", "volumeName") != "":
		return false
	case by == render.Provisioner:
		u.Why += ", whose StorageClass is not bound by WaitForFirstConsumer"
		return true
	case defined:
		u.Why += fmt.Sprintf(" of provisioner %s, which nothing available runs", by)
		for key, other := range d.steps.apps {
			if other.Remote == a.Remote && slices.ContainsFunc(other.Objects, func(o render.Document) bool { return runs(o) && mentions(o.Node, by) }) && !d.requires(key, step{a.Key(), complete}) {
				u.By = append(u.By, key)
			}
		}
		slices.Sort(u.By)
		return true
	case cmp.Or(name, render.DefaultClass) == render.DefaultClass:
		return x.unused(u, a, claim, d)
	}
	u.Why += fmt.Sprintf(" of StorageClass %s, which nothing available defines", name)
	return true
}

// unused reports whether a claim of lab's class remains pending: until a pod uses it, or forever for a mode that the class does not have. A release in its namespace may have one.
func (x *expander) unused(u *Undefined, a Application, claim *yaml.Node, d definers) bool {
	if mode := render.SharedMode(strict.Get(claim, "spec")); mode != "" {
		u.Why += ", but lab's StorageClass has no " + mode
		return true
	}
	of := objectOf(claim)
	for key, user := range d.steps.apps {
		switch {
		case user.Remote != a.Remote || slices.Contains(d.steps.closure(step{key, applied}), step{a.Key(), complete}):
		case slices.Contains(render.Reads(user.Objects, "").Read, "PersistentVolumeClaim "+of.namespace+"/"+of.name) && d.reaches(step{key, applied}):
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
