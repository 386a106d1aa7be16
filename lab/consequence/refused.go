package consequence

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab/apiserver"
	"homelab/lab/desired"
	"homelab/lab/strict"
)

// change returns why the API server of a cluster refuses a change, or "", and what it stores.
func (f *foresight) change(o, next object) (refused string, stored map[string]any) {
	if d := f.definition(next); d != nil {
		return refusal(d.Update(o.content, next.content)), next.content
	}
	stored, err := apiserver.Applied(o.content, next.content)
	if err != nil {
		return err.Error(), next.content
	}
	return refusal(apiserver.Update(o.content, stored)), stored
}

// refusedCreate returns why the API server of a cluster refuses a new object, or "".
func (f *foresight) refusedCreate(o object) string {
	if d := f.definition(o); d != nil {
		return refusal(d.Create(o.content))
	}
	return refusal(apiserver.Create(o.content))
}

func refusal(problems []apiserver.Problem) string {
	var list []string
	for _, p := range problems {
		list = append(list, p.String())
	}
	return strings.Join(list, "; ")
}

const definition = "CustomResourceDefinition"

// definition returns the definition of an object's kind that its cluster will have, or nil for Kubernetes' own kinds, and for those that the estate does not define.
func (f *foresight) definition(o object) *apiserver.Definition {
	gvk := schema.FromAPIVersionAndKind(text(o.content, "apiVersion"), text(o.content, "kind"))
	if apiserver.Has(gvk) {
		return nil
	}
	if f.definitions[o.Cluster] == nil {
		f.definitions[o.Cluster] = f.defined(o.Cluster)
	}
	of := f.definitions[o.Cluster][gvk.GroupKind()]
	if of == nil {
		return nil
	}
	d, known := f.schemas[o.Cluster+" "+gvk.String()]
	if !known {
		d, _ = apiserver.NewDefinition(of, gvk.Version) // without one, nothing is known
		f.schemas[o.Cluster+" "+gvk.String()] = d
	}
	return d
}

// defined returns the definitions that a cluster will have. What is unchanged has not been rendered yet.
func (f *foresight) defined(cluster string) map[schema.GroupKind]map[string]any {
	of := map[schema.GroupKind]map[string]any{}
	add := func(o object) {
		if o.Cluster == cluster && text(o.content, "kind") == definition {
			of[schema.GroupKind{Group: text(o.content, "spec", "group"), Kind: text(o.content, "spec", "names", "kind")}] = o.content
		}
	}
	for _, u := range f.after {
		for _, o := range u.objects {
			add(o)
		}
		here := slices.ContainsFunc(u.app.Parts, func(p desired.Part) bool { return p.Cluster == cluster })
		if !here || !f.unchanged[u.app.Name] || u.release != "" {
			continue
		}
		for _, o := range f.rendered(u.app) {
			if o.Cluster != cluster || strict.Text(o.Node, "kind") != definition {
				continue
			}
			if content, err := content(o); err == nil {
				add(object{o, content})
			}
		}
	}
	return of
}

// rendered returns the objects of an unchanged application.
func (f *foresight) rendered(a desired.App) []desired.Object {
	objects, known := f.made[a.Name]
	if !known {
		objects, _ = a.Rendered()
		f.made[a.Name] = objects
	}
	return objects
}

// restarts reports whether pods are replaced when a manifest becomes what is stored then.
func restarts(before, stored map[string]any) bool {
	group, _, _ := strings.Cut(text(stored, "apiVersion"), "/")
	kind := text(stored, "kind")
	if group != "apps" || kind != "Deployment" && kind != "DaemonSet" && kind != "StatefulSet" || text(stored, "spec", "updateStrategy", "type") == "OnDelete" {
		return false
	}
	was, err := apiserver.Defaulted(before)
	return err != nil || !reflect.DeepEqual(get(was, "spec", "template"), get(stored, "spec", "template"))
}
