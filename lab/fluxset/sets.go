package fluxset

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/fluxset/resourceset"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// Why lab waits for nothing of Flux Operator.
const (
	ofOperator = "of Flux Operator"
	operated   = ofOperator + ", which is not part of Flux"
)

// WithoutOperator returns the patch that deletes the objects of Flux Operator.
func WithoutOperator() Patch {
	return Patch{Target: map[string]string{"group": resourceset.Group}, Patch: Deleted}
}

func isOperator(n *yaml.Node) bool {
	return strings.HasPrefix(strict.Text(n, "apiVersion"), resourceset.Group+"/")
}

// isInstance reports whether an object is about Flux itself.
func isInstance(n *yaml.Node) bool {
	kind := strict.Text(n, "kind")
	return isOperator(n) && kind != resourceset.Kind && kind != resourceset.Provider
}

// build builds a Kustomization. It keeps apart what lab's patches delete of Flux Operator.
func (a *Application) build(k render.Kustomization, from tree) (objects []render.Document, unset []render.Unset, err error) {
	patches, deletes := withoutDeletion(k.Spec["patches"])
	if deletes {
		all := k
		all.Spec = maps.Clone(k.Spec)
		all.Spec["patches"] = patches
		objects, unset, err = all.Build()
	}
	if !deletes || err != nil {
		objects, unset, err = k.Build()
	}
	if deletes {
		unset = slices.DeleteFunc(unset, func(u render.Unset) bool {
			of := strings.HasPrefix(u.APIVersion, resourceset.Group+"/")
			if of {
				k.Note(u.Problem())
			}
			return of
		})
	}
	for i := range unset {
		unset[i].At.File = from.place(unset[i].At.File)
	}
	kept := objects[:0]
	for _, o := range objects {
		if o.File = from.place(o.File); deletes && isOperator(o.Node) {
			a.operated = append(a.operated, o)
		} else {
			kept = append(kept, o)
		}
	}
	return kept, unset, err
}

// withoutDeletion returns the patches of a Kustomization without lab's that delete objects of Flux Operator, and whether there are such.
func withoutDeletion(patches any) (kept []any, deletes bool) {
	all, _ := patches.([]any)
	for _, p := range all {
		patch, _ := p.(map[string]any)
		target, _ := patch["target"].(map[string]any)
		text, _ := patch["patch"].(string)
		of := target["group"] == resourceset.Group || target["kind"] == resourceset.Kind || target["kind"] == resourceset.Provider
		if of && strings.TrimSpace(text) == strings.TrimSpace(Deleted) { // kustomize trims that of a nested one
			deletes = true
			continue
		}
		kept = append(kept, p)
	}
	return kept, deletes
}

// operator is what Flux Operator has of a cluster.
type operator struct {
	providers []render.Document // ResourceSetInputProviders
	sets      []setBelow        // to expand
	seen      map[string]bool   // ResourceSets
}

type setBelow struct {
	render.Document
	parent *Application
	depth  int // of ResourceSets in ResourceSets
}

// has adds the objects of Flux Operator that an application applies.
func (op *operator) has(a *Application, depth int) {
	for _, o := range slices.Concat(a.operated, a.Objects) {
		of := key(o.Node)
		switch kind := strict.Text(o.Node, "kind"); {
		case !isOperator(o.Node) || ignored(o.Node):
		case kind == resourceset.Provider && !slices.ContainsFunc(op.providers, func(p render.Document) bool { return key(p.Node) == of }):
			op.providers = append(op.providers, o)
		case kind == resourceset.Kind && !op.seen[of]:
			op.seen[of] = true
			op.sets = append(op.sets, setBelow{o, a, depth})
		}
	}
}

// resourceSets expands the ResourceSets of all applications, and follows what they lead to. Nothing else depends on that, as lab's Flux has none of it.
func (x *expander) resourceSets() {
	from := &origins{url: maps.Clone(x.url), of: maps.Clone(x.of), files: x.files, made: maps.Clone(x.made), generators: slices.Clone(x.generators)}
	data, w := maps.Clone(x.data), x.World
	w.Artifacts = true // there is no patch for what nothing applies
	op := &operator{}
	for {
		known := len(data) + len(from.of) + len(op.providers)
		op.seen = map[string]bool{}
		for a := range x.all() {
			op.has(a, 0)
		}
		o := &expander{World: w, Expansion: Expansion{Sources: from.url, data: data, holders: maps.Clone(x.holders)}, seen: maps.Clone(x.seen), origins: from}
		for ; len(op.sets) > 0; op.sets = op.sets[1:] {
			o.set(op, op.sets[0])
		}
		if len(data)+len(from.of)+len(op.providers) == known { // otherwise a set may have lacked what a later one makes
			x.Sets, x.Problems, x.Notes = o.Applications, append(x.Problems, o.Problems...), append(x.Notes, o.Notes...)
			x.orderSets()
			return
		}
	}
}

// set expands a ResourceSet, and follows what it leads to.
func (x *expander) set(op *operator, of setBelow) {
	title, parent := strict.Title(of.Node), of.parent
	app := &Application{
		Namespace: strict.Text(of.Node, "metadata", "namespace"), Name: strict.Text(of.Node, "metadata", "name"), At: lab.Position{File: of.File, Line: of.Line},
		Manifest: of.Node, Remote: parent.Remote, Parent: parent.Key(), mounted: parent.mounted,
	}
	if of.depth > maxDepth {
		x.fail(app.At, fmt.Sprintf("ResourceSets nest more than %d deep", maxDepth), "")
		return
	}
	set := resourceset.Set{Document: of.Document, Providers: op.providers, Step: x.Budget.Step, Data: func(kind, namespace, name string) map[string]string {
		return x.dataOf(Read{Kind: kind, Namespace: namespace, Name: name})
	}}
	objects, unknown, err := set.Expand()
	set.Step = nil // the budget is of this reading
	app.Set = &set
	if refused := x.dependencies(app, of.Node); refused != nil && err == nil {
		err = &render.Error{Problem: *refused}
	}
	x.assign(app)
	x.Notes = append(x.Notes, unknown...)
	var invalid *render.Error
	switch {
	case errors.As(err, &invalid) && app.mounted:
		app.stall(invalid.String())
	case errors.As(err, &invalid):
		x.Problems = append(x.Problems, invalid.Problem)
	}
	app.idle = app.LeftOut == ""
	app.stall(title + " is " + operated)
	app.Objects = objects
	first := len(x.Applications)
	x.Applications = append(x.Applications, *app)
	if app.Remote == "" {
		x.leads(app, "", 0)
	}
	x.Applications[first] = *app
	for i := range x.Applications[first:] {
		a := &x.Applications[first+i]
		a.idle = a.idle || a.LeftOut == ""
		a.stall("part of " + title + ", which is left out")
		op.has(a, of.depth+1)
	}
}
