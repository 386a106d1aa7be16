package fluxset

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// How often Flux looks by itself; lab and the forge's webhook ask it to at once.
const (
	interval = 10 * time.Minute
	retry    = 15 * time.Second
	timeout  = 5 * time.Minute
)

// World is what Kustomizations are expanded against.
type World struct {
	FS         fs.FS                                                // the estate
	Vars       func(namespace, name string) map[string]string       // data of a ConfigMap or Secret on the hub; nil if unknown
	Repository func(url string) (fsys fs.FS, dir string, ours bool) // of a GitRepository; dir is its place within the estate
}

// Application is a Kustomization that the roots lead to.
type Application struct {
	Namespace, Name string
	Cluster         string // empty for one that is in no cluster's namespace
	At              lab.Position
	Path            string // folder that it builds
	Releases        []Release
	Objects         []render.Document
	Unset           lab.Problems // variables without a value
}

// Release is a HelmRelease of an application.
type Release struct {
	Name, TargetNamespace string
	Chart, Version        string // of a chart repository or, where Folder is set, neither
	Folder                string // of a chart in Git
	URL                   string // of the repository
	Source                string // kind and name of the repository, "HelmRepository charts"
	At                    lab.Position
}

// Expansion is what the roots lead to.
type Expansion struct {
	Applications []Application
	Sources      map[string]string // "KIND NAMESPACE/NAME" -> URL
	Problems     lab.Problems
}

// Expand follows the Kustomizations in a root's file.
func Expand(w World, file string) Expansion {
	x := &expander{World: w, Expansion: Expansion{Sources: map[string]string{}}, seen: map[string]bool{}}
	data, err := fs.ReadFile(w.FS, file)
	if err != nil {
		x.fail(lab.Position{File: file, Line: 1}, "is not there", "it holds the GitRepository and the Kustomization that Flux starts from")
		return x.Expansion
	}
	docs, problems := strict.Parse(file, data)
	x.Problems = append(x.Problems, problems...)
	var roots []render.Document
	for _, doc := range docs {
		roots = append(roots, render.Document{Node: doc, File: file})
	}
	if !slices.ContainsFunc(docs, func(n *yaml.Node) bool { return isKustomization(n) }) && len(problems) == 0 {
		x.fail(lab.Position{File: file, Line: 1}, "holds no Kustomization", "it holds the GitRepository and the Kustomization that Flux starts from")
	}
	x.sources(roots)
	for _, doc := range roots {
		if isKustomization(doc.Node) {
			x.seen[key(doc.Node)] = true
			x.follow(doc, 0)
		}
	}
	return x.Expansion
}

type expander struct {
	World
	Expansion
	seen map[string]bool // Kustomizations
}

const maxDepth = 20 // of Kustomizations in one another

func (x *expander) fail(at lab.Position, message, cure string) {
	x.Problems = append(x.Problems, lab.Problem{Position: at, Message: message, Cure: cure})
}

func isKustomization(n *yaml.Node) bool {
	return text(n, "kind") == "Kustomization" && strings.HasPrefix(text(n, "apiVersion"), "kustomize.toolkit.fluxcd.io/")
}

func key(n *yaml.Node) string {
	return text(n, "metadata", "namespace") + "/" + text(n, "metadata", "name")
}

// follow builds a Kustomization, and then those that it holds. It returns what it built.
func (x *expander) follow(doc render.Document, depth int) *Application {
	at := lab.Position{File: doc.File, Line: doc.Line}
	if depth > maxDepth {
		x.fail(at, "Kustomizations lie deeper in one another than is followed", "")
		return nil
	}
	app := &Application{Namespace: text(doc.Node, "metadata", "namespace"), Name: text(doc.Node, "metadata", "name"), At: at}
	app.Cluster, _ = lab.FluxClusterOf(app.Namespace)
	var spec map[string]any
	if n := get(doc.Node, "spec"); n == nil || n.Decode(&spec) != nil {
		x.fail(at, "spec is missing", "")
		return nil
	}
	ref := get(doc.Node, "spec", "sourceRef")
	source := text(ref, "kind") + " " + cmp.Or(text(ref, "namespace"), app.Namespace) + "/" + text(ref, "name")
	url, known := x.Sources[source]
	if !known {
		x.fail(lab.Position{File: doc.File, Line: cmp.Or(lineOf(ref), doc.Line)}, fmt.Sprintf("Kustomization %s reads %s, which is nowhere", app.Name, source), "")
		return nil
	}
	fsys, dir, ours := x.Repository(url)
	if !ours {
		return app // what it holds is not to be had from the files
	}
	app.Path = path.Join(dir, text(doc.Node, "spec", "path"))
	k := render.Kustomization{FS: fsys, Path: text(doc.Node, "spec", "path"), Spec: spec, Variables: x.variables(doc.Node, app.Namespace)}
	objects, unset, err := k.Build()
	var invalid *render.Error
	switch {
	case errors.As(err, &invalid):
		p := invalid.Problem
		p.File = path.Join(dir, p.File)
		x.Problems = append(x.Problems, p)
		return app
	case err != nil:
		x.fail(at, err.Error(), "")
		return app
	}
	for i := range objects {
		objects[i].File = path.Join(dir, objects[i].File)
	}
	app.Objects, app.Unset = objects, unset
	x.sources(objects)
	for _, o := range objects {
		switch {
		case text(o.Node, "kind") == "HelmRelease":
			app.Releases = append(app.Releases, x.release(o))
		case isKustomization(o.Node) && !x.seen[key(o.Node)]:
			x.seen[key(o.Node)] = true
			if below := x.follow(o, depth+1); below != nil {
				x.Applications = append(x.Applications, *below)
			}
		}
	}
	return app
}

// variables are what a Kustomization substitutes; nil if it does not.
func (x *expander) variables(n *yaml.Node, namespace string) map[string]string {
	post := get(n, "spec", "postBuild")
	if post == nil {
		return nil
	}
	vars := map[string]string{}
	if from := get(post, "substituteFrom"); from != nil {
		for _, ref := range from.Content {
			for k, v := range x.Vars(namespace, text(ref, "name")) {
				vars[k] = v
			}
		}
	}
	if inline := get(post, "substitute"); inline != nil {
		for i := 0; i+1 < len(inline.Content); i += 2 {
			vars[inline.Content[i].Value] = inline.Content[i+1].Value
		}
	}
	return vars
}

// sources notes the addresses of sources.
func (x *expander) sources(objects []render.Document) {
	for _, o := range objects {
		if url := text(o.Node, "spec", "url"); url != "" && strings.HasPrefix(text(o.Node, "apiVersion"), "source.toolkit.fluxcd.io/") {
			x.Sources[text(o.Node, "kind")+" "+key(o.Node)] = url
		}
	}
}

func (x *expander) release(o render.Document) Release {
	namespace := text(o.Node, "metadata", "namespace")
	r := Release{
		Name: text(o.Node, "metadata", "name"), TargetNamespace: cmp.Or(text(o.Node, "spec", "targetNamespace"), namespace),
		At: lab.Position{File: o.File, Line: o.Line},
	}
	ref := get(o.Node, "spec", "chartRef")
	if chart := get(o.Node, "spec", "chart", "spec"); chart != nil {
		ref = get(chart, "sourceRef")
		r.Chart, r.Version = text(chart, "chart"), text(chart, "version")
	}
	kind := text(ref, "kind")
	name := cmp.Or(text(ref, "namespace"), namespace) + "/" + text(ref, "name")
	r.Source, r.URL = kind+" "+name, x.Sources[kind+" "+name]
	if kind == "GitRepository" || kind == "Bucket" {
		r.Folder, r.Chart, r.Version = path.Clean(r.Chart), "", ""
	}
	return r
}

// get returns the value at a path of keys, or nil.
func get(n *yaml.Node, keys ...string) *yaml.Node {
	for _, k := range keys {
		if n == nil || n.Kind != yaml.MappingNode {
			return nil
		}
		var next *yaml.Node
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == k {
				next = n.Content[i+1]
			}
		}
		n = next
	}
	return n
}

// text returns the scalar at a path, or "".
func text(n *yaml.Node, keys ...string) string {
	if n = get(n, keys...); n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

func lineOf(n *yaml.Node) int {
	if n == nil {
		return 0
	}
	return n.Line
}
