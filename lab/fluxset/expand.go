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
	FS         fs.FS                                                          // the estate
	Home       string                                                         // the cluster whose Flux has the roots; empty where one drives all
	Vars       func(namespace, name string) map[string]string                 // data of a ConfigMap or Secret where Flux runs; nil if unknown
	Assumed    func(Read) map[string]string                                   // what stands for the data of what is not known; nil for nothing
	Extra      []string                                                       // controllers of image automation that Flux has
	Repository func(url, revision string) (fsys fs.FS, dir string, why error) // of a GitRepository; dir is its place within the estate. *Absent if it is not ours
}

// Absent is the error of a repository, or of a revision, that is not to be had from the files.
type Absent struct{ Why string } // empty for one that may be had elsewhere

func (e *Absent) Error() string { return cmp.Or(e.Why, "no repository of the estate") }

// Application is a Kustomization that the roots lead to.
type Application struct {
	Namespace, Name string
	Cluster         string // empty for one that is in no cluster's namespace
	At              lab.Position
	Path            string // folder that it builds
	Releases        []Release
	Objects         []render.Document
	Unset           []render.Unset // variables without a value
	Reads           []Read

	Parent    string   // NAMESPACE/NAME of the Kustomization that applies it; empty for a root
	DependsOn []string // likewise of those that have to be ready before it
	Waits     bool     // it is ready only once what it applies is
	Elsewhere string   // URL of its source that is not of the estate
	LeftOut   string   // why it cannot work here, whatever can be had

	nowhere string // source that nothing applies
	source  string // as Expansion.Sources has it
	mounted bool   // it is of a repository beside the estate
	patched bool   // it has patches of its own
	decrypt bool   // it decrypts
}

// Key is the application's namespace and name.
func (a Application) Key() string { return a.Namespace + "/" + a.Name }

// Read is a ConfigMap or a Secret that an application takes values from.
type Read struct {
	Kind, Namespace, Name string
	At                    lab.Position
	Optional              bool
	Variables             bool // its keys are variables
	Known                 bool // its data are those of the world, or of an object that is applied
	Keys                  []ReadKey
}

// ReadKey is a key that has to be there.
type ReadKey struct {
	Name string
	At   lab.Position
	Text bool // YAML values of a chart
}

// Release is a HelmRelease of an application.
type Release struct {
	Name, TargetNamespace string
	Chart, Version        string // of a chart repository or, where Folder is set, neither
	Folder                string // of a chart in Git
	URL                   string // of the repository
	Source                string // kind and name of the repository, "HelmRepository charts"
	Revision              string // of a Git repository
	Engine                bool   // it is one that would install an engine
	At                    lab.Position
	Suspended             bool

	why string // its chart cannot be made here
}

// Expansion is what the roots lead to.
type Expansion struct {
	Roots        []Application
	Applications []Application
	Sources      map[string]string // "KIND NAMESPACE/NAME" -> URL
	Problems     lab.Problems
}

// Expand follows the Kustomizations in a root's file, again where one needs a source or a ConfigMap that a later one applies.
func Expand(w World, file string) Expansion {
	from, data := &origins{url: map[string]string{}, of: map[string]*yaml.Node{}, files: map[string]fs.FS{}, made: map[string]tree{}}, map[string]map[string]string{}
	for {
		known := len(data) + len(from.of)
		x := &expander{World: w, Expansion: Expansion{Sources: from.url}, seen: map[string]bool{}, origins: from, data: data}
		x.roots(file)
		x.leaveOut()
		if !x.missed() || len(data)+len(from.of) == known {
			return x.Expansion
		}
	}
}

// missed reports whether something needs what is known now, and was not when it was met.
func (x *expander) missed() bool {
	return slices.ContainsFunc(slices.Concat(x.Roots, x.Applications), func(a Application) bool {
		return a.nowhere != "" && x.somewhere(a.nowhere) ||
			slices.ContainsFunc(a.Reads, func(r Read) bool { return !r.Known && x.data[r.key()] != nil }) ||
			slices.ContainsFunc(a.Releases, func(r Release) bool { return r.URL == "" && (x.somewhere(r.Source) || x.of[r.Source] != nil) })
	})
}

// somewhere reports whether something applies a source.
func (x *expander) somewhere(source string) bool {
	_, err := x.treeOf(source)
	return !errors.Is(err, errNowhere)
}

func (r Read) key() string { return r.Kind + " " + r.Namespace + "/" + r.Name }

func (x *expander) roots(file string) {
	data, err := fs.ReadFile(x.FS, file)
	if err != nil {
		x.fail(lab.Position{File: file, Line: 1}, "is not there", "it holds the GitRepository and the Kustomization that Flux starts from")
		return
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
		}
	}
	for _, doc := range roots {
		if !isKustomization(doc.Node) {
			continue
		}
		if app := x.follow(doc, nil, 0); app != nil {
			x.Roots = append(x.Roots, *app)
		}
	}
}

type expander struct {
	World
	Expansion
	*origins
	seen map[string]bool              // Kustomizations
	data map[string]map[string]string // of ConfigMaps and Secrets that are applied, by kind, namespace and name
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

// follow builds a Kustomization, and then those that it holds. It returns what it built. What is wrong below a mounted repository's root is left out: nobody here
// can mend it.
func (x *expander) follow(doc render.Document, parent *Application, depth int) *Application {
	at := lab.Position{File: doc.File, Line: doc.Line}
	app := &Application{Namespace: text(doc.Node, "metadata", "namespace"), Name: text(doc.Node, "metadata", "name"), At: at}
	app.Cluster, _ = lab.FluxApplicationOf(x.Home, app.Namespace, app.Name)
	if parent != nil {
		app.Parent, app.mounted = parent.Key(), parent.mounted
	}
	fail := func(at lab.Position, message string) *Application {
		if app.mounted {
			app.LeftOut = cmp.Or(app.LeftOut, message)
			return app
		}
		x.fail(at, message, "")
		return nil
	}
	if depth > maxDepth {
		x.fail(at, "Kustomizations lie deeper in one another than is followed", "")
		return nil
	}
	var spec map[string]any
	if n := get(doc.Node, "spec"); n == nil || n.Decode(&spec) != nil {
		return fail(at, "spec is missing")
	}
	x.conditions(app, doc.Node)
	ref := get(doc.Node, "spec", "sourceRef")
	source := text(ref, "kind") + " " + cmp.Or(text(ref, "namespace"), app.Namespace) + "/" + text(ref, "name")
	app.source = source
	from, err := x.treeOf(source)
	var absent *Absent
	switch {
	case errors.Is(err, errNowhere):
		app.nowhere = source
		fail(lab.Position{File: doc.File, Line: cmp.Or(lineOf(ref), doc.Line)}, fmt.Sprintf("Kustomization %s reads %s, which is nowhere", app.Name, source))
		return app
	case errors.As(err, &absent) && absent.Why == "":
		app.Elsewhere = from.url // what it holds is not to be had from the files
		return app
	case err != nil:
		app.LeftOut = cmp.Or(app.LeftOut, source+": "+err.Error())
		return app
	}
	within := app.mounted
	if app.mounted = from.mounted; app.mounted {
		x.afar(app, doc.Node)
		x.including(app)
	}
	app.Path = from.place(text(doc.Node, "spec", "path"))
	k := render.Kustomization{FS: from.FS, Path: text(doc.Node, "spec", "path"), Spec: spec, Variables: x.variables(app, doc)}
	objects, unset, err := k.Build()
	var invalid *render.Error
	switch {
	case err != nil && within:
		app.LeftOut = cmp.Or(app.LeftOut, "it cannot be built here: "+err.Error())
		return app
	case errors.As(err, &invalid):
		p := invalid.Problem
		p.File = from.place(p.File)
		x.Problems = append(x.Problems, p)
		return app
	case err != nil:
		x.fail(at, err.Error(), "")
		return app
	}
	for i := range objects {
		objects[i].File = from.place(objects[i].File)
	}
	for i := range unset {
		unset[i].At.File = from.place(unset[i].At.File)
	}
	app.Objects, app.Unset = objects, unset
	if len(unset) > 0 && app.mounted { // strict, as Flux is
		app.LeftOut = cmp.Or(app.LeftOut, fmt.Sprintf("variable %s is not set: %s", unset[0].Name, unset[0].At))
	}
	x.sources(objects)
	x.applied(app)
	for _, o := range objects {
		x.bridged(app.Name, app.Cluster, o)
		switch {
		case text(o.Node, "kind") == "HelmRelease":
			app.Releases = append(app.Releases, x.release(o))
			x.valuesFrom(app, o)
			if app.mounted {
				x.afar(app, o.Node)
			}
			r := app.Releases[len(app.Releases)-1]
			if r.Engine && app.mounted {
				app.LeftOut = cmp.Or(app.LeftOut, "HelmRelease "+r.Name+" would install an engine over the lab's")
			}
			app.LeftOut = cmp.Or(app.LeftOut, r.why)
		case isKustomization(o.Node) && !x.seen[key(o.Node)]:
			x.seen[key(o.Node)] = true
			if below := x.follow(o, app, depth+1); below != nil {
				x.Applications = append(x.Applications, *below)
			}
		}
	}
	return app
}

func (x *expander) release(o render.Document) Release {
	namespace := text(o.Node, "metadata", "namespace")
	r := Release{
		Name: text(o.Node, "metadata", "name"), TargetNamespace: cmp.Or(text(o.Node, "spec", "targetNamespace"), namespace),
		At: lab.Position{File: o.File, Line: o.Line}, Suspended: text(o.Node, "spec", "suspend") == "true",
	}
	ref := get(o.Node, "spec", "chartRef")
	source := func() (kind, name string) {
		return text(ref, "kind"), cmp.Or(text(ref, "namespace"), namespace) + "/" + text(ref, "name")
	}
	chart := get(o.Node, "spec", "chart", "spec")
	if kind, name := source(); chart == nil && kind == "HelmChart" {
		r.Source = kind + " " + name
		if of := x.of[r.Source]; of != nil {
			namespace, chart = text(of, "metadata", "namespace"), get(of, "spec")
		}
	}
	if chart != nil {
		ref = get(chart, "sourceRef")
		r.Chart, r.Version = text(chart, "chart"), text(chart, "version")
	}
	kind, name := source()
	r.Source, r.URL = kind+" "+name, x.Sources[kind+" "+name]
	r.Revision = x.revision(r.Source)
	if kind == externalArtifact {
		made, err := x.treeOf(r.Source)
		if r.URL = made.url; err == nil {
			r.Folder = "."
		}
		var absent *Absent
		if err != nil && !errors.Is(err, errNowhere) && (!errors.As(err, &absent) || absent.Why != "") {
			r.why = fmt.Sprintf("HelmRelease %s: %s: %v", r.Name, r.Source, err)
		}
	}
	r.Engine = slices.Contains(engines, path.Base(cmp.Or(r.Chart, r.URL)))
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
