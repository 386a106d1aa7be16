package leftout

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// Needs describes what an Application's objects need of others and provide to them.
type Needs struct {
	Opaque  bool // may provide anything
	Checked bool // as needs.Rules.Checked

	foreign, defined []string // as needs.Kinds
	waits            []needs.Wait
	provides         []string
	tracked          map[string]string
}

// Add adds objects of a destination's namespace, whose cluster has nodes with these labels.
func (n *Needs) Add(rules needs.Rules, objects []render.Document, namespace string, nodes []map[string]string) {
	foreign, defined := needs.Kinds(objects)
	n.foreign, n.defined = append(n.foreign, foreign...), append(n.defined, defined...)
	n.waits = append(n.waits, rules.Waits(objects, nodes)...)
	n.provides = append(n.provides, needs.Provides(objects)...)
	n.Checked = n.Checked || slices.ContainsFunc(objects, rules.Checked)
	if n.tracked == nil {
		n.tracked = map[string]string{}
	}
	maps.Copy(n.tracked, tracked(objects, namespace))
}

// instanceLabel makes Argo CD ignore whose an object is.
const instanceLabel = "app.kubernetes.io/instance"

// tracked returns the objects that Argo CD marks as an Application's, by identity, as named in messages.
func tracked(objects []render.Document, namespace string) map[string]string {
	list := map[string]string{}
	for _, o := range objects {
		gvk := schema.FromAPIVersionAndKind(strict.Text(o.Node, "apiVersion"), strict.Text(o.Node, "kind"))
		name, in := strict.Text(o.Node, "metadata", "name"), cmp.Or(strict.Text(o.Node, "metadata", "namespace"), namespace)
		if needs.IsHook(o) || gvk.Kind == "CustomResourceDefinition" || strict.Text(o.Node, "metadata", "labels", instanceLabel) != "" {
			continue
		}
		if namespaced, known := render.Namespaced(o); known && !namespaced {
			in = ""
		}
		list[gvk.GroupKind().String()+" "+in+"/"+name] = gvk.Kind + " " + name
	}
	return list
}

// Relate records what Applications need of one another, and which objects they share. all is by Application.
func Relate(e *lab.Estate, all map[string]Needs) {
	byCluster := onClusters(e)
	lacks(e, all, byCluster)
	for _, apps := range byCluster {
		share(apps, all)
	}
}

// lacks records what Applications need and their clusters lack: kinds, as Argo CD syncs no object of an Application without them, and what objects wait for. A cluster
// that lab does not create may have any.
func lacks(e *lab.Estate, all map[string]Needs, byCluster map[string][]*lab.Generated) {
	for i := range e.Applications {
		a := &e.Applications[i]
		c, known := e.Cluster(a.Cluster)
		if !known || c.Provider != lab.ProviderKind {
			continue
		}
		of := all[a.Name]
		a.Unchecked = !of.Checked
		for _, kind := range of.foreign {
			if needs.IsEngines(kind) && c.Role == lab.RoleHub {
				continue
			}
			need := lab.Need{Why: "nothing defines " + kind + " on " + a.Cluster, Exists: true}
			for _, o := range byCluster[a.Cluster] {
				if o.Opaque || slices.Contains(all[o.Name].defined, kind) {
					need.By = append(need.By, o.Name)
				}
			}
			a.Kinds = append(a.Kinds, need)
		}
		for _, w := range of.waits {
			a.Waits = append(a.Waits, needOf(w, a.Cluster, byCluster[a.Cluster], all))
		}
	}
}

// needOf returns the need of an object that waits.
func needOf(w needs.Wait, cluster string, beside []*lab.Generated, all map[string]Needs) lab.Need {
	need := lab.Need{Why: w.Why}
	if len(w.By) == 0 {
		return need
	}
	need.Why += ", which nothing provides on " + cluster
	for _, o := range beside {
		of := all[o.Name]
		if of.Opaque || slices.ContainsFunc(of.provides, func(what string) bool { return slices.Contains(w.By, what) }) {
			need.By = append(need.By, o.Name)
		}
	}
	return need
}

// share records the objects that several Applications of a cluster have: each marks them as its own, and the others are out of sync.
func share(apps []*lab.Generated, all map[string]Needs) {
	owners := map[string]*lab.Generated{}
	for _, a := range apps {
		for object, title := range all[a.Name].tracked {
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
