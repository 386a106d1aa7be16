package estate

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

// tracked returns the objects that Argo CD marks as an Application's, by identity, as named in messages.
func tracked(objects []render.Document, namespace string) map[string]string {
	list := map[string]string{}
	for _, o := range objects {
		gvk := schema.FromAPIVersionAndKind(strict.Text(o.Node, "apiVersion"), strict.Text(o.Node, "kind"))
		name, in := strict.Text(o.Node, "metadata", "name"), cmp.Or(strict.Text(o.Node, "metadata", "namespace"), namespace)
		if render.IsHook(o) || gvk.Kind == "CustomResourceDefinition" || strict.Text(o.Node, "metadata", "labels", instanceLabel) != "" {
			continue
		}
		if namespaced, known := render.Namespaced(o); known && !namespaced {
			in = ""
		}
		list[gvk.GroupKind().String()+" "+in+"/"+name] = gvk.Kind + " " + name
	}
	return list
}

// shared records the objects that several Applications of a cluster have: each marks them as its own, and the others are out of sync.
func (l *loader) shared() {
	for _, apps := range onClusters(l.estate) {
		owners := map[string]*lab.Generated{}
		for _, a := range apps {
			for object, title := range l.needs[a.Name].tracked {
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

// leaveOutShared leaves out the Applications that share objects with others that are synced, and reports whether there are any.
func leaveOutShared(e *lab.Estate) bool {
	unsynced := map[string]bool{}
	for _, a := range e.Applications {
		unsynced[a.Name] = a.LeftOut != "" && a.Unsynced || a.Replaces
	}
	found := false
	for i := range e.Applications {
		a := &e.Applications[i]
		j := slices.IndexFunc(a.Shared, func(s lab.Share) bool { return !unsynced[s.With] })
		if j < 0 || a.LeftOut != "" {
			continue
		}
		a.LeftOut = "shares " + a.Shared[j].Object + " with " + a.Shared[j].With + ": Argo CD keeps only one of them in sync"
		a.Drifts, found = true, true
	}
	return found
}
