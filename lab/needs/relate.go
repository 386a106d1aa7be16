package needs

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// instanceLabel makes Argo CD ignore whose an object is.
const instanceLabel = "app.kubernetes.io/instance"

// tracked returns the objects that Argo CD marks as those of a unit, by identity, as named in messages.
func (u Unit) tracked() map[string]string {
	list := map[string]string{}
	for _, o := range u.Objects {
		gvk := schema.FromAPIVersionAndKind(strict.Text(o.Node, "apiVersion"), strict.Text(o.Node, "kind"))
		name, in := strict.Text(o.Node, "metadata", "name"), namespaceOf(o.Node, u.Namespace)
		if IsHook(o.Node) || gvk.Kind == "CustomResourceDefinition" || strict.Text(o.Node, "metadata", "labels", instanceLabel) != "" {
			continue
		}
		if namespaced, known := render.Namespaced(o); known && !namespaced {
			in = ""
		}
		list[gvk.GroupKind().String()+" "+in+"/"+name] = strict.Title(o.Node)
	}
	return list
}

// Relate records what Applications of Argo CD need of one another, and which objects they share. units are by Application, clusters what each cluster has by itself; one
// without may have anything.
func Relate(e *lab.Estate, engine Engine, units map[string]Unit, clusters []Unit) {
	w, judged := World{}, map[string]bool{}
	for _, c := range clusters {
		w.Add(c)
		judged[c.Cluster] = true
	}
	unit := func(a lab.Generated) Unit {
		u := units[a.Name]
		u.Cluster, u.Name = a.Cluster, a.Name
		return u
	}
	for _, a := range e.Applications {
		w.Add(unit(a))
	}
	for i := range e.Applications {
		if a := &e.Applications[i]; judged[a.Cluster] {
			a.Lacks = w.lacks(engine, unit(*a))
		}
	}
	all := named(e)
	for _, units := range w.on {
		share(all, units)
	}
}

// lacks returns what an Application of Argo CD needs of others.
func (w World) lacks(e Engine, u Unit) []lab.Need {
	list, blocks := w.Lacks(e, u), e.Checks(u)
	slices.SortStableFunc(list, func(a, b Need) int { return cmp.Compare(min(a.Sort, Bound), min(b.Sort, Bound)) })
	var all []lab.Need
	for _, n := range list {
		need := lab.Need{Why: n.says(u.Cluster), Blocks: blocks || n.Sort > Exists}
		if slices.ContainsFunc(all, func(o lab.Need) bool { return o.Why == need.Why }) {
			continue
		}
		need.Synced, need.By = w.Meeting(n, u.Cluster)
		if n.Sort == Served {
			need.State = lab.Absent
		}
		all = append(all, need)
	}
	return all
}

// says returns why an Application of Argo CD on a cluster is left out.
func (n Need) says(cluster string) string {
	switch {
	case n.Sort == Served:
		return "nothing defines " + n.What + " on " + cluster
	case n.Sort == Exists:
		return "nothing in Git creates " + n.What + " on " + cluster
	case len(n.By)+len(n.May) == 0:
		return strict.Title(n.Object) + " is " + n.What
	}
	return strict.Title(n.Object) + " waits for " + n.What + ", which nothing provides on " + cluster
}

// share records the objects that several Applications of a cluster have: each marks them as its own, and the others are out of sync.
func share(all applications, units []*Unit) {
	owners := map[string]*lab.Generated{}
	for _, u := range units {
		a := all[u.Name]
		for object, title := range u.tracked() {
			switch first := owners[object]; {
			case first == nil:
				owners[object] = a
			case first != a:
				first.Shared = appendShare(first.Shared, lab.Share{Object: title, With: a.Name})
				a.Shared = appendShare(a.Shared, lab.Share{Object: title, With: first.Name})
			}
		}
	}
}

// appendShare keeps one object for each other Application: the first by name.
func appendShare(list []lab.Share, s lab.Share) []lab.Share {
	for i := range list {
		if list[i].With == s.With {
			list[i].Object = min(list[i].Object, s.Object)
			return list
		}
	}
	return append(list, s)
}
