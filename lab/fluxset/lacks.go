package fluxset

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/flux"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// isCustom reports whether an object is a custom resource other than Flux's.
func isCustom(o render.Document) bool {
	gvk := schema.FromAPIVersionAndKind(strict.Text(o.Node, "apiVersion"), strict.Text(o.Node, "kind"))
	_, own := needs.Serves(gvk)
	return !own && !needs.IsFlux(gvk.Group)
}

// lacksNamespace reports whether an object lacks its namespace. Flux has no default for it: it applies nothing of an application with such an object.
func lacksNamespace(n *yaml.Node) bool {
	gvk := schema.FromAPIVersionAndKind(strict.Text(n, "apiVersion"), strict.Text(n, "kind"))
	namespaced, _ := render.Namespaced(render.Document{Node: n})
	return strict.Text(n, "metadata", "namespace") == "" && (needs.IsFlux(gvk.Group) || namespaced) && !ignored(n)
}

// reject reports an object that Flux rejects, or leaves out the application if it is mounted.
func (x *expander) reject(app *Application, o render.Document, message, cure string) {
	if app.mounted {
		app.stall(message)
		return
	}
	x.fail(lab.Position{File: o.File, Line: o.Line}, message, cure)
}

// Undefined is what an application lacks: Flux applies nothing of one with an object of an undefined kind.
type Undefined struct {
	By  []string // keys of the applications that may provide it; empty for none
	Why string   // reason for leaving out the application if nothing does

	of object
}

// supply is what applications provide to others.
type supply struct {
	needs.World
	steps steps
	after map[string]map[step]bool // what an application requires that may provide more than its manifests
}

// supplied determines what applications provide.
func (x *expander) supplied(s steps) supply {
	d := supply{steps: s, after: map[string]map[step]bool{}}
	remotes := map[string]bool{}
	for _, a := range slices.Concat(x.Roots, x.Applications) {
		u := unitOf(a)
		if a.mounted && a.Elsewhere != "" && !a.engine {
			u.May = func(needs.Need) bool { return true }
		}
		d.Add(u)
		remotes[a.Remote] = true
		for _, r := range a.Releases {
			if remotes[r.Remote] = true; !r.Suspended && !r.Engine && (r.URL != "" || !a.mounted) {
				d.Add(needs.Unit{Cluster: r.Remote, Name: a.Key(), May: x.mayMeet(r)})
			}
		}
	}
	for remote := range remotes {
		d.Add(needs.Unit{Cluster: remote, May: func(n needs.Need) bool { // Flux's kinds are judged one by one, and a missing namespace is reported by others
			kind, namespace, _ := needs.Split(n.What)
			return n.Sort == needs.Exists && (kind == "Namespace" || namespace == flux.Namespace) || n.Sort == needs.Served && needs.IsFlux(objectOf(n.Object).group)
		}})
	}
	return d
}

// unitOf returns what an application applies.
func unitOf(a Application) needs.Unit {
	return needs.Unit{Cluster: a.Remote, Name: a.Key(), Objects: slices.DeleteFunc(slices.Clone(a.Objects), func(o render.Document) bool { return ignored(o.Node) })}
}

// mayMeet returns whether a release's chart may meet a need.
func (x *expander) mayMeet(r Release) func(needs.Need) bool {
	brings := sync.OnceValues(func() ([]string, bool) { return x.brings(r) })
	return func(n needs.Need) bool {
		of := objectOf(n.Object)
		switch kinds, more := brings(); {
		case more, n.Sort == needs.Served && slices.Contains(kinds, n.What):
			return true
		case n.Sort == needs.Exists:
			kind, namespace, _ := needs.Split(n.What)
			return (namespace == "" || r.TargetNamespace == namespace) && x.mentions(r, "kind: "+kind)
		}
		return n.Sort == needs.Used && r.TargetNamespace == of.namespace && x.mentions(r, "persistentVolumeClaim")
	}
}

// undefined finds what applications of mounted repositories lack: kinds, and what they wait for.
func (x *expander) undefined(s steps) {
	d := x.supplied(s)
	x.supply = d
	each := func(mounted bool, do func(*Application)) {
		for a := range x.all() {
			if a.mounted == mounted && (x.Foreign == nil || !x.Foreign(a.Cluster)) {
				do(a)
			}
		}
	}
	waits := func(a *Application) []Undefined {
		u := unitOf(*a)
		if x.Nodes != nil {
			u.Nodes = x.Nodes(a.Cluster)
		}
		_, list := d.lacks(u, step{a.Key(), complete})
		return slices.DeleteFunc(list, func(u Undefined) bool { return !a.waitsForAll && !slices.Contains(a.checks, u.of) })
	}
	for again := true; again; { // a stalled application defines nothing
		again = false
		each(true, func(a *Application) {
			a.Undefined, _ = d.lacks(unitOf(*a), step{a.Key(), applied})
			if i := slices.IndexFunc(a.Undefined, certain); i >= 0 && !a.Stalled {
				a.stall(a.Undefined[i].Why)
				again = true
			}
		})
	}
	each(true, func(a *Application) {
		a.Unbound = waits(a)
		if i := slices.IndexFunc(a.Unbound, certain); i >= 0 {
			a.LeftOut = cmp.Or(a.LeftOut, a.Unbound[i].Why)
		}
	})
	each(false, func(a *Application) {
		kinds, _ := d.lacks(unitOf(*a), step{a.Key(), applied})
		a.Lacks = append(kinds, waits(a)...)
	})
}

// certain reports whether nothing provides what an application lacks.
func certain(u Undefined) bool { return len(u.By) == 0 }

// lacks returns what a unit needs that nothing certainly provides before a step: kinds, without which Flux applies nothing of it, and what its objects need to be ready.
func (d supply) lacks(u needs.Unit, at step) (kinds, waits []Undefined) {
	before := func(key string) bool { // it does not wait for at
		return d.reaches(step{key, applied}) && !slices.Contains(d.steps.closure(step{key, applied}), at)
	}
	for _, n := range d.Lacks(needs.Flux(), u) {
		by, perhaps := d.Meeting(n, u.Cluster)
		if slices.ContainsFunc(by, before) {
			continue
		}
		of := Undefined{of: objectOf(n.Object), Why: n.Clause}
		for _, key := range append(by, perhaps...) {
			if !d.requires(key, at) && !slices.Contains(of.By, key) {
				of.By = append(of.By, key)
			}
		}
		if n.Sort == needs.Served {
			kinds = append(kinds, of)
			continue
		}
		of.Why = "waits for " + strict.Title(n.Object) + of.Why
		waits = append(waits, of)
	}
	return kinds, waits
}

// Lacks returns what the objects of a release lack: kinds, and what they need to be ready on nodes with these labels.
func (x Expansion) Lacks(a Application, r Release, objects []render.Document, nodes []map[string]string) (kinds, waits []Undefined) {
	kinds, waits = x.supply.lacks(needs.Unit{Cluster: r.Remote, Name: a.Key(), Namespace: r.TargetNamespace, Objects: objects, Nodes: nodes}, step{a.Key(), installed})
	for _, o := range objects {
		if why := needs.Flux().Rejected(o); why != "" {
			waits = append(waits, Undefined{Why: "has " + strict.Title(o.Node) + ", which is " + why})
		}
	}
	return kinds, waits
}

// reaches reports whether nothing that a step requires fails.
func (d supply) reaches(of step) bool {
	return !slices.ContainsFunc(d.steps.closure(of), d.steps.fails)
}

// requires reports whether an application must wait for a step before it can provide more than its manifests.
func (d supply) requires(key string, of step) bool {
	if d.after[key] == nil {
		d.after[key] = map[step]bool{}
		for _, s := range d.steps.closure(step{key, installed}) {
			d.after[key][s] = true
		}
	}
	return d.after[key][of]
}

// mentions reports whether a release's chart is elsewhere or mentions a text.
func (w World) mentions(r Release, text string) bool {
	if r.Folder == "" {
		return true
	}
	fsys, _, err := r.Files()
	return err != nil || Mentions(fsys, r.Folder, text)
}

// Mentions reports whether the files of a chart mention a text.
func Mentions(fsys fs.FS, chart, text string) bool {
	return render.Mentions(render.Source{FS: fsys, Source: appset.Source{Path: chart, Helm: &appset.Helm{}}}, text)
}

// brings returns the kinds in the folder of definitions of a release's chart, as in needs.Provides, and whether the chart may bring more: it is not here, or has definitions
// among its templates, or dependencies.
func (x *expander) brings(r Release) (kinds []string, more bool) {
	if r.Folder == "" {
		return nil, true
	}
	fsys, _, err := r.Files()
	if err != nil {
		return nil, true
	}
	const crds = "crds"
	_ = fs.WalkDir(fsys, r.Folder, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // reported when needed
		case e.IsDir() && path.Dir(name) == r.Folder && name != r.Folder && !slices.Contains([]string{crds, "charts", "templates"}, e.Name()):
			return fs.SkipDir // a chart may be the whole repository
		case e.IsDir():
			return nil
		}
		data, _ := fs.ReadFile(fsys, name)
		switch {
		case !strings.HasPrefix(name, path.Join(r.Folder, crds)+"/"):
			more = more || strings.HasSuffix(name, ".tgz") || strings.Contains(string(data), "CustomResourceDefinition") || strings.Contains(string(data), "kind: StorageClass") ||
				e.Name() == "Chart.yaml" && depends(fsys, name, data)
		case !r.noCRDs:
			docs, _ := strict.Parse(name, data)
			for _, n := range docs {
				kinds = append(kinds, needs.Provides([]render.Document{{Node: n}}, "")...)
			}
		}
		return nil
	})
	return kinds, more
}

// depends reports whether a chart has dependencies that are not vendored.
func depends(fsys fs.FS, file string, data []byte) bool {
	docs, _ := strict.Parse(file, data)
	return slices.ContainsFunc(docs, func(n *yaml.Node) bool {
		return slices.ContainsFunc(strict.List(n, "dependencies"), func(d *yaml.Node) bool {
			_, err := fs.Stat(fsys, path.Join(path.Dir(file), "charts", strict.Text(d, "name")))
			return err != nil
		})
	})
}

// ignored reports whether Flux does not apply an object: https://fluxcd.io/flux/components/kustomize/kustomizations/#controlling-the-apply-behavior-of-resources
func ignored(n *yaml.Node) bool {
	return slices.ContainsFunc([]string{"labels", "annotations"}, func(of string) bool {
		in := strict.Get(n, "metadata", of)
		return strings.EqualFold(strict.Text(in, "kustomize.toolkit.fluxcd.io/ssa"), "Ignore") || strings.EqualFold(strict.Text(in, "kustomize.toolkit.fluxcd.io/reconcile"), "disabled")
	})
}

// leaveOutHomeless leaves out mounted applications with an object, or a release, in a namespace that does not exist and that nothing creates.
func (x *expander) leaveOutHomeless() {
	if x.Namespaces == nil {
		return
	}
	all := slices.Concat(x.Roots, x.Applications)
	made := func(remote, name string) bool {
		existing := x.Namespaces(cmp.Or(remote, x.Scope.Home))
		return existing == nil || slices.Contains(existing, name) || slices.ContainsFunc(all, func(a Application) bool {
			return x.mayCreateNamespaces(a, remote) || a.Elsewhere != "" || a.Missing != "" ||
				a.Remote == remote && slices.ContainsFunc(a.Objects, func(o render.Document) bool {
					return strict.Text(o.Node, "kind") == "Namespace" && strict.Text(o.Node, "metadata", "name") == name
				}) ||
				slices.ContainsFunc(a.Releases, func(r Release) bool {
					return r.Remote == remote && r.TargetNamespace == name && r.object.GetInstall().CreateNamespace
				})
		})
	}
	for a := range x.all() {
		if !a.mounted {
			continue
		}
		for _, o := range a.Objects {
			if name := strict.Text(o.Node, "metadata", "namespace"); name != "" && !ignored(o.Node) && !made(a.Remote, name) {
				a.stall(fmt.Sprintf("%s is in namespace %s, which nothing creates", strict.Title(o.Node), name))
			}
		}
		for _, r := range a.Releases {
			if !r.Suspended && !made(r.Remote, r.TargetNamespace) {
				a.LeftOut = cmp.Or(a.LeftOut, fmt.Sprintf("HelmRelease %s is for namespace %s, which nothing creates", r.Name, r.TargetNamespace))
			}
		}
	}
}

// mayCreateNamespaces reports whether an application may create namespaces that are not in its manifests: with a role that creates objects, or with a release whose chart is
// elsewhere or mentions them.
func (x *expander) mayCreateNamespaces(a Application, remote string) bool {
	return a.Remote == remote && slices.Contains(needs.Provides(a.Objects, ""), needs.CreatesObjects) || slices.ContainsFunc(a.Releases, func(r Release) bool {
		return r.Remote == remote && x.mentions(r, "kind: Namespace")
	})
}
