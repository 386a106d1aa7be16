package fluxset

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// Undefined is an object of a kind or class that neither Kubernetes nor manifests define. Flux applies nothing of an application with an object of an undefined kind.
type Undefined struct {
	By  []string // keys of the applications whose charts or sources may define the kind; empty for none
	Why string   // reason for leaving out the application if nothing does

	of object
}

// kind is a kind of custom resources in a cluster.
type kind struct{ remote, group, name string }

// fluxGroups are suffixes of the groups whose objects are judged one by one.
var fluxGroups = []string{".toolkit.fluxcd.io", "source.extensions.fluxcd.io", "fluxcd.controlplane.io"}

func isFlux(group string) bool {
	return slices.ContainsFunc(fluxGroups, func(g string) bool { return strings.HasSuffix(group, g) })
}

// isCustom reports whether an object is a custom resource other than Flux's.
func isCustom(o render.Document) bool {
	gvk := schema.FromAPIVersionAndKind(strict.Text(o.Node, "apiVersion"), strict.Text(o.Node, "kind"))
	_, own := needs.Served(gvk)
	return !own && !isFlux(gvk.Group)
}

// lacksNamespace reports whether an object lacks its namespace. Flux has no default for it: it applies nothing of an application with such an object.
func lacksNamespace(n *yaml.Node) bool {
	gvk := schema.FromAPIVersionAndKind(strict.Text(n, "apiVersion"), strict.Text(n, "kind"))
	namespaced, _ := render.Namespaced(render.Document{Node: n})
	return strict.Text(n, "metadata", "namespace") == "" && (isFlux(gvk.Group) || namespaced) && !ignored(n)
}

// noNamespace reports an object without a namespace, or leaves out the application if it is mounted.
func (x *expander) noNamespace(app *Application, o render.Document, of string) {
	message := of + " has no namespace, and Flux knows no default"
	if app.mounted {
		app.stall(message)
		return
	}
	x.fail(lab.Position{File: o.File, Line: o.Line}, message, "write metadata.namespace, or spec.targetNamespace of Kustomization "+app.Name)
}

// definers are the applications that define kinds.
type definers struct {
	by    map[kind][]string   // in manifests
	crds  map[kind][]string   // in charts in Git
	other map[string][]string // perhaps, with a chart, an operator or files that are not here; by remote cluster
	steps steps
	after map[string]map[step]bool // what an application that may define kinds requires

	provisioners map[class]string
}

// undefined finds the objects of mounted repositories whose kinds are not served.
func (x *expander) undefined(s steps) {
	d := definers{by: map[kind][]string{}, crds: map[kind][]string{}, other: map[string][]string{}, steps: s, after: map[string]map[step]bool{}, provisioners: x.provisioners()}
	lists := [][]Application{x.Roots, x.Applications}
	for _, list := range lists {
		for _, a := range list {
			x.define(&d, a)
		}
	}
	for again := true; again; { // a stalled application defines nothing
		again = false
		for _, list := range lists {
			for i := range list {
				if a := &list[i]; a.mounted && (x.Foreign == nil || !x.Foreign(a.Cluster)) {
					a.Undefined = d.undefinedOf(a.Objects, a.Remote, step{a.Key(), applied})
					if i := slices.IndexFunc(a.Undefined, func(u Undefined) bool { return len(u.By) == 0 }); i >= 0 && !a.Stalled {
						a.stall(a.Undefined[i].Why)
						again = true
					}
				}
			}
		}
	}
	x.unbound(d)
	x.definers = d
}

// define records the kinds that an application defines.
func (x *expander) define(d *definers, a Application) {
	defines := false
	for _, o := range a.Objects {
		if strict.Text(o.Node, "kind") == "CustomResourceDefinition" {
			k := kind{a.Remote, strict.Text(o.Node, "spec", "group"), strict.Text(o.Node, "spec", "names", "kind")}
			d.by[k], defines = append(d.by[k], a.Key()), true
		}
	}
	if a.mounted && a.Elsewhere != "" && !a.engine || defines && slices.ContainsFunc(a.Objects, runs) { // an operator may define more
		d.other[a.Remote] = append(d.other[a.Remote], a.Key())
	}
	for _, r := range a.Releases {
		if r.Suspended || r.Engine || r.URL == "" && a.mounted {
			continue
		}
		for _, k := range x.crds(r) {
			d.crds[k] = append(d.crds[k], a.Key())
		}
		if x.mayDefine(r) && !slices.Contains(d.other[r.Remote], a.Key()) {
			d.other[r.Remote] = append(d.other[r.Remote], a.Key())
		}
	}
}

// runs reports whether an object is a workload.
func runs(o render.Document) bool {
	return slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "Job"}, strict.Text(o.Node, "kind"))
}

// crdsDir is the folder of a chart with its definitions.
const crdsDir = "crds"

// crds returns the kinds in the folder of definitions of a chart in Git.
func (x *expander) crds(r Release) []kind {
	if r.Folder == "" || r.Artifact || r.noCRDs {
		return nil
	}
	fsys, _, err := x.Repository(r.URL, r.Revision)
	if err != nil {
		return nil
	}
	var list []kind
	_ = fs.WalkDir(fsys, path.Join(r.Folder, crdsDir), func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // most charts have none
		}
		data, _ := fs.ReadFile(fsys, name)
		docs, _ := strict.Parse(name, data)
		for _, n := range docs {
			list = append(list, kind{r.Remote, strict.Text(n, "spec", "group"), strict.Text(n, "spec", "names", "kind")})
		}
		return nil
	})
	return list
}

// mayDefine reports whether a release's chart is not here, or has definitions among its templates, or dependencies.
func (x *expander) mayDefine(r Release) bool {
	if r.Folder == "" {
		return true
	}
	fsys, _, err := x.Repository(r.URL, r.Revision)
	if err != nil {
		return true
	}
	found := false
	_ = fs.WalkDir(fsys, r.Folder, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // reported when needed
		case e.IsDir() && path.Dir(name) == r.Folder && name != r.Folder && !slices.Contains([]string{"charts", "templates"}, e.Name()):
			return fs.SkipDir // a chart may be the whole repository
		case e.IsDir():
			return nil
		}
		data, _ := fs.ReadFile(fsys, name)
		found = strings.HasSuffix(name, ".tgz") || strings.Contains(string(data), "CustomResourceDefinition") || strings.Contains(string(data), "kind: StorageClass") ||
			e.Name() == "Chart.yaml" && depends(fsys, name, data)
		if found {
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// depends reports whether a chart has dependencies that are not vendored.
func depends(fsys fs.FS, file string, data []byte) bool {
	docs, _ := strict.Parse(file, data)
	return slices.ContainsFunc(docs, func(n *yaml.Node) bool {
		return slices.ContainsFunc(items(strict.Get(n, "dependencies")), func(d *yaml.Node) bool {
			_, err := fs.Stat(fsys, path.Join(path.Dir(file), "charts", strict.Text(d, "name")))
			return err != nil
		})
	})
}

// Undefined returns the objects of a release whose kinds are not served, nor defined by its own chart.
func (x Expansion) Undefined(a Application, r Release, objects []render.Document) []Undefined {
	list := x.definers.undefinedOf(objects, r.Remote, step{a.Key(), installed})
	return slices.DeleteFunc(list, func(u Undefined) bool {
		return slices.ContainsFunc(objects, func(o render.Document) bool {
			return strict.Text(o.Node, "kind") == "CustomResourceDefinition" && strict.Text(o.Node, "spec", "group") == u.of.group && strict.Text(o.Node, "spec", "names", "kind") == u.of.kind
		})
	})
}

// undefinedOf returns the objects whose kinds are not served when a step creates them in a cluster.
func (d definers) undefinedOf(objects []render.Document, remote string, at step) []Undefined {
	var list []Undefined
	for _, o := range objects {
		gvk := schema.FromAPIVersionAndKind(strict.Text(o.Node, "apiVersion"), strict.Text(o.Node, "kind"))
		served, own := needs.Served(gvk)
		if served || isFlux(gvk.Group) || ignored(o.Node) {
			continue
		}
		u := Undefined{of: objectOf(o.Node), Why: fmt.Sprintf("needs kind %s of %s, which nothing available defines", gvk.Kind, gvk.Group)}
		if own {
			u.Why = fmt.Sprintf("Kubernetes %s serves no %s of %s", lab.KubernetesVersion, gvk.Kind, gvk.GroupVersion())
			list = append(list, u)
			continue
		}
		by := d.by[kind{remote, gvk.Group, gvk.Kind}]
		before := func(key string) bool { // it does not wait for at
			return d.reaches(step{key, applied}) && !slices.Contains(d.steps.closure(step{key, applied}), at)
		}
		if slices.ContainsFunc(by, func(key string) bool { return key == at.key || before(key) }) {
			continue
		}
		for _, key := range slices.Concat(by, d.crds[kind{remote, gvk.Group, gvk.Kind}], d.other[remote]) {
			if !d.requires(key, at) && !slices.Contains(u.By, key) {
				u.By = append(u.By, key)
			}
		}
		list = append(list, u)
	}
	return list
}

// ignored reports whether Flux does not apply an object: https://fluxcd.io/flux/components/kustomize/kustomizations/#controlling-the-apply-behavior-of-resources
func ignored(n *yaml.Node) bool {
	return slices.ContainsFunc([]string{"labels", "annotations"}, func(of string) bool {
		in := strict.Get(n, "metadata", of)
		return strings.EqualFold(strict.Text(in, "kustomize.toolkit.fluxcd.io/ssa"), "Ignore") || strings.EqualFold(strict.Text(in, "kustomize.toolkit.fluxcd.io/reconcile"), "disabled")
	})
}

func (d definers) reaches(of step) bool {
	return !slices.ContainsFunc(d.steps.closure(of), d.steps.fails)
}

// requires reports whether an application must wait for a step before it can define kinds.
func (d definers) requires(key string, of step) bool {
	if d.after[key] == nil {
		d.after[key] = map[step]bool{}
		for _, s := range d.steps.closure(step{key, installed}) {
			d.after[key][s] = true
		}
	}
	return d.after[key][of]
}
