package consequence

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/desired"
	"homelab/lab/strict"
)

// unit is what an engine applies, prunes and deletes as a whole: an Application, a Kustomization or a HelmRelease.
type unit struct {
	app      desired.App
	release  string
	manifest map[string]any // nil if it has none
	objects  []object
	broken   lab.Problems // why objects are missing
	inputs   []string     // digests of what its objects are rendered from

	holder *unit  // that applies its manifest, or its ApplicationSet; nil for none
	held   string // key of the fate of that object
	depth  int    // number of those above it
}

func (u *unit) key() string { return u.app.Name + "|" + u.release }

func (u *unit) String() string {
	if u.release != "" {
		return "HelmRelease " + u.release
	}
	return u.app.Name
}

// kind is that of the object that its engine has it from.
func (u *unit) kind() string {
	if u.app.Set != "" && u.release == "" {
		return "ApplicationSet"
	}
	return text(u.manifest, "kind")
}

// rejected reports whether it is an Application that its ApplicationSet does not make, or a set with an error.
func (u *unit) rejected() bool {
	return u.app.Engine == "" && u.manifest == nil && len(u.app.Parts) == 0 && u.app.LeftOut != ""
}

// fixed reports whether an Application stays what it was, as its ApplicationSet does not update it.
func (u *unit) fixed(was *unit) bool {
	return u.app.Fixed != "" && u.release == "" && !reflect.DeepEqual(was.manifest, u.manifest)
}

// same reports whether two units are rendered from the same inputs.
func (u *unit) same(v *unit) bool {
	return len(u.inputs) > 0 && !slices.Contains(u.inputs, "") && slices.Equal(u.inputs, v.inputs) && reflect.DeepEqual(u.manifest, v.manifest) && u.app.Cluster == v.app.Cluster
}

// object is an object with its decoded content.
type object struct {
	desired.Object
	content map[string]any
}

// key identifies an object in all clusters: its version does not matter.
func (o object) key() string {
	group, _, ok := strings.Cut(text(o.content, "apiVersion"), "/")
	if !ok {
		group = ""
	}
	return strings.Join([]string{o.Cluster, group, text(o.content, "kind"), text(o.content, "metadata", "namespace"), text(o.content, "metadata", "name")}, "|")
}

// units returns the units of a state.
func (f *foresight) units(s State) []*unit {
	var list []*unit
	for _, app := range s.Apps {
		if f.left[app.Cluster] {
			continue
		}
		u := &unit{app: app, manifest: decoded(app.Manifest)}
		of := map[string]*unit{"": u}
		list = append(list, u)
		for _, p := range app.Parts {
			if p.Name != "" && of[p.Name] == nil {
				of[p.Name] = &unit{app: app, release: p.Name}
				list = append(list, of[p.Name])
			}
			inputs := ""
			if p.Inputs != nil && !f.unchanged[app.Name] {
				inputs = p.Inputs()
			}
			of[p.Name].inputs = append(of[p.Name].inputs, inputs)
		}
		if f.unchanged[app.Name] {
			continue
		}
		objects, failed := app.Rendered()
		for _, why := range failed {
			to := of[why.Part]
			why.Problem.Message = to.String() + ": " + why.Problem.Message
			to.broken = append(to.broken, why.Problem)
		}
		for _, o := range objects {
			if f.left[o.Cluster] {
				continue
			}
			to := of[o.Part]
			content, err := content(o)
			if err != nil {
				to.broken = append(to.broken, lab.Problem{Position: lab.Position{File: o.File, Line: o.Line}, Message: err.Error()})
				continue
			}
			to.objects = append(to.objects, object{o, content})
		}
		for _, o := range u.objects {
			if release := of[text(o.content, "metadata", "namespace")+"/"+text(o.content, "metadata", "name")]; release != nil && text(o.content, "kind") == "HelmRelease" {
				release.manifest = o.content
			}
		}
	}
	return list
}

// unchanged returns the applications that are rendered from the same inputs on both sides.
func unchanged(before, after State) map[string]bool {
	of := map[string]desired.App{}
	for _, a := range before.Apps {
		of[a.Name] = a
	}
	same := map[string]bool{}
	for _, b := range after.Apps {
		a, known := of[b.Name]
		same[b.Name] = known && a.Cluster == b.Cluster && a.Set == b.Set && a.Kept == b.Kept && len(a.Parts) == len(b.Parts) && reflect.DeepEqual(decoded(a.Manifest), decoded(b.Manifest))
		for i := 0; i < len(b.Parts) && same[b.Name]; i++ {
			p, q := a.Parts[i], b.Parts[i]
			inputs := ""
			if p.Inputs != nil && q.Inputs != nil && p.Name == q.Name && p.Cluster == q.Cluster && p.Namespace == q.Namespace {
				inputs = p.Inputs()
			}
			same[b.Name] = inputs != "" && inputs == q.Inputs()
		}
	}
	return same
}

// sameKeys reports whether two sides have the same units and objects.
func sameKeys(before, after []*unit) bool {
	keys := func(units []*unit) map[string]bool {
		all := map[string]bool{}
		for _, u := range units {
			all[u.key()] = true
			for _, o := range u.objects {
				all[u.key()+"|"+o.key()] = true
			}
		}
		return all
	}
	return maps.Equal(keys(before), keys(after))
}

// fill adds the objects of what is unchanged, without their content, to both sides.
func (f *foresight) fill(before, after []*unit) {
	objects := map[string][]object{}
	for _, u := range before {
		if u.release != "" || !f.unchanged[u.app.Name] {
			continue
		}
		for _, o := range f.rendered(u.app) {
			key := u.app.Name + "|" + o.Part
			objects[key] = append(objects[key], object{o, map[string]any{
				"apiVersion": strict.Text(o.Node, "apiVersion"), "kind": strict.Text(o.Node, "kind"),
				"metadata": map[string]any{"name": strict.Text(o.Node, "metadata", "name"), "namespace": strict.Text(o.Node, "metadata", "namespace")},
			}})
		}
	}
	for _, u := range slices.Concat(before, after) {
		if f.unchanged[u.app.Name] {
			u.objects = objects[u.key()]
		}
	}
}

// hold finds what applies each unit.
func hold(units []*unit) {
	type entry struct {
		object
		of *unit
	}
	manifests := map[string][]entry{} // by kind and name
	for _, u := range units {
		for _, o := range u.objects {
			switch kind := text(o.content, "kind"); kind {
			case "Application", "ApplicationSet", "Kustomization", "HelmRelease":
				key := kind + " " + text(o.content, "metadata", "name")
				manifests[key] = append(manifests[key], entry{o, u})
			}
		}
	}
	for _, u := range units {
		name, set := text(u.manifest, "metadata", "name"), u.kind() == "ApplicationSet"
		if set {
			name = u.app.Set
		}
		for _, e := range manifests[u.kind()+" "+name] {
			if u.holder == nil && e.of != u && (set || is(e.content, u.manifest)) {
				u.holder, u.held = e.of, fateOf(e.of, e.content)
			}
		}
	}
	for _, u := range units {
		for at := u.holder; at != nil && u.depth < len(units); at = at.holder {
			u.depth++
		}
	}
}

// is reports whether a manifest describes an object.
func is(o, manifest map[string]any) bool {
	if manifest == nil || text(o, "metadata", "name") != text(manifest, "metadata", "name") || text(o, "kind") != text(manifest, "kind") {
		return false
	}
	ns := text(manifest, "metadata", "namespace")
	return ns == "" || ns == text(o, "metadata", "namespace")
}

func byKey(units []*unit) map[string]*unit {
	of := map[string]*unit{}
	for _, u := range units {
		of[u.key()] = u
	}
	return of
}

func (f *foresight) owners(units []*unit) map[string]*unit {
	of := map[string]*unit{}
	for _, u := range units {
		for _, o := range u.objects {
			if f.lasting(o) {
				of[o.key()] = u
			}
		}
	}
	return of
}
