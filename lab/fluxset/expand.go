package fluxset

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/flux"
	"homelab/lab/fluxset/resourceset"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// Flux's intervals; lab and the forge's webhook also trigger it.
const (
	interval = 10 * time.Minute
	retry    = 15 * time.Second
	timeout  = 5 * time.Minute
)

// World is the environment of Kustomizations.
type World struct {
	FS         fs.FS                                                          // the estate
	Budget     *render.Budget                                                 // of all renderings of the estate, or nil
	Scope      flux.Scope                                                     // clusters of the Kustomizations
	Vars       func(namespace, name string) map[string]string                 // data of an existing ConfigMap or Secret; nil if unknown
	Assumed    func(Read) map[string]string                                   // substitute for unknown data; may be nil
	Extra      []string                                                       // Flux's additional controllers
	Artifacts  bool                                                           // OCIRepositories that nothing creates are the GitRepository of their name: artifacts of it
	Foreign    func(cluster string) bool                                      // whether a cluster may define kinds by itself; may be nil
	Namespaces func(cluster string) []string                                  // that exist without the estate; nil if unknown; may be nil
	Nodes      func(cluster string) []map[string]string                       // labels of the nodes that run pods; nil if unknown; may be nil
	Repository func(url, revision string) (fsys fs.FS, dir string, why error) // of a GitRepository, at dir in the estate; *Absent if not in the files
}

// Absent is the error for a repository or revision that is not in the files.
type Absent struct{ Why string } // empty if it may be available elsewhere

func (e *Absent) Error() string { return cmp.Or(e.Why, "no repository of the estate") }

// Application is a Kustomization reached from the roots.
type Application struct {
	Namespace, Name string
	Cluster         string // per Scope; may be empty
	As              string // name in the cluster's applications
	Remote          string // cluster of its objects if another than Flux's
	At              lab.Position
	Manifest        *yaml.Node `json:"-"`
	Path            string     // of the built folder
	Missing         string     // source that nothing creates, as in Expansion.Sources
	Releases        []Release
	Objects         []render.Document
	Built           render.Kustomization     `json:"-"` // of which Objects were built
	Place           func(file string) string `json:"-"` // name of a file of it for users; nil without Objects
	Unset           []render.Unset           // variables without a value
	Reads           []Read

	Parent    string   // key of the Kustomization that applies it; empty for a root
	DependsOn []string // keys
	Waits     bool     // for its objects to be ready
	Sources   []string // URLs outside the estate of sources that it waits for
	Elsewhere string   // URL of a source outside the estate
	LeftOut   string   // why it cannot work here, or not all of it
	Stalled   bool     // left out, and Flux does not apply it
	Needs     []string // keys of those without which it cannot work if something in them does not
	After     []string // keys of those that Flux applies before it, or that must be ready
	Certain   bool     // Flux applies it even if charts, images and sources are unavailable

	Kubeconfigs []Kubeconfig // of its own and its releases'
	Undefined   []Undefined
	Unbound     []Undefined // for which it waits
	Lacks       []Undefined // both, of one that is not from a mounted repository, and so perhaps not known

	Set *resourceset.Set `json:"-"` // that it is; nil for a Kustomization

	operated []render.Document // objects of Flux Operator that lab's patches delete
	invalid  string            // why it cannot be built, as in Expansion.Problems
	source   string            // key of Expansion.Sources
	mounted  bool              // from a mounted repository
	patched  bool              // has spec.patches
	decrypt  bool              // has spec.decryption
	engine   bool              // installs Flux
	fromOCI  bool              // World.Artifacts applies to its source

	waitsForAll bool     // spec.wait
	checks      []object // spec.healthChecks, without spec.wait
}

// Key returns NAMESPACE/NAME.
func (a Application) Key() string { return a.Namespace + "/" + a.Name }

// Mounted reports whether it, or what it applies, is from a mounted repository.
func (a Application) Mounted() bool { return a.mounted }

// RemoteOf returns the remote cluster of a HelmRelease of the application, or "".
func (a Application) RemoteOf(release render.Document) string {
	for _, r := range a.Releases {
		if r.Is(release) {
			return r.Remote
		}
	}
	return a.Remote
}

// Kubeconfig is a reference to a Secret with the kubeconfig of a remote cluster.
type Kubeconfig struct {
	lab.KubeconfigSecret
	At lab.Position
}

// Read is a ConfigMap or Secret that an application reads, or a ServiceAccount that applies it.
type Read struct {
	Kind, Namespace, Name string
	Cluster               string // remote cluster that contains it, or empty
	At                    lab.Position
	Optional              bool
	Variables             bool // keys are variables
	Known                 bool // data is known
	Keys                  []ReadKey
	Bound                 bool // a ServiceAccount with a role

	Late map[string]string // data of an object that is applied only after the application, and so not known; nil otherwise

	at stage // of the application, when it is read
}

// ReadKey is a required key.
type ReadKey struct {
	Name string
	At   lab.Position
	Text bool // YAML values of a chart
}

// Expansion is everything reached from the roots.
type Expansion struct {
	Roots        []Application
	Applications []Application
	Sets         []Application     // ResourceSets of Flux Operator, and the Kustomizations that they lead to: lab's Flux has none of them
	Sources      map[string]string // "KIND NAMESPACE/NAME" -> URL
	Problems     lab.Problems
	Notes        lab.Problems // what Flux does without a word

	data   map[string]map[string]string // of applied ConfigMaps and Secrets, by Read.key
	supply supply
}

// Has reports whether an application applies a ConfigMap, Secret or ServiceAccount.
func (x Expansion) Has(r Read) bool { return x.data[r.key()] != nil }

// Expand follows the Kustomizations in a root's file, and repeats if one needs an object that a later one applies.
func Expand(w World, file string) Expansion {
	from, data := &origins{url: map[string]string{}, of: map[string]*yaml.Node{}, files: map[string]fs.FS{}, made: map[string]tree{}}, map[string]map[string]string{}
	for {
		known := len(data) + len(from.of)
		x := &expander{World: w, Expansion: Expansion{Sources: from.url, data: data}, seen: map[string]bool{}, origins: from}
		x.roots(file)
		x.leaveOutHomeless()
		x.leaveOut()
		if !x.incomplete() || len(data)+len(from.of) == known {
			x.resourceSets()
			return x.Expansion
		}
	}
}

// incomplete reports whether an application needs a source or data that only became known later.
func (x *expander) incomplete() bool {
	return slices.ContainsFunc(slices.Concat(x.Roots, x.Applications), func(a Application) bool {
		return a.Missing != "" && x.hasSource(a.Missing) ||
			slices.ContainsFunc(a.Reads, func(r Read) bool { return !r.Known && r.Late == nil && x.data[r.key()] != nil }) ||
			slices.ContainsFunc(a.Releases, func(r Release) bool { return r.URL == "" && (x.hasSource(r.Source) || x.of[r.Source] != nil) })
	})
}

// all returns the applications, which may be changed.
func (x *Expansion) all() iter.Seq[*Application] {
	return func(yield func(*Application) bool) {
		for _, list := range [][]Application{x.Roots, x.Applications} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

func (x *expander) hasSource(source string) bool {
	_, err := x.treeOf(source)
	return !errors.Is(err, errNoSource)
}

func (r Read) key() string { return dataKey(r.Cluster, r.Kind, r.Namespace+"/"+r.Name) }

// dataKey returns the key of an object's data. remote is the cluster of the object, empty for Flux's.
func dataKey(remote, kind, name string) string {
	return strings.TrimPrefix(remote+": ", ": ") + kind + " " + name
}

func (x *expander) roots(file string) {
	data, err := fs.ReadFile(x.FS, file)
	if err != nil {
		x.fail(lab.Position{File: file, Line: 1}, "does not exist", "it contains Flux's first GitRepository and Kustomization")
		return
	}
	docs, problems := strict.Parse(file, data)
	x.Problems = append(x.Problems, problems...)
	var roots []render.Document
	for _, doc := range docs {
		roots = append(roots, render.Document{Node: doc, File: file})
	}
	if !slices.ContainsFunc(docs, func(n *yaml.Node) bool { return isKustomization(n) }) && len(problems) == 0 {
		x.fail(lab.Position{File: file, Line: 1}, "contains no Kustomization", "it contains Flux's first GitRepository and Kustomization")
	}
	x.sources(roots)
	for _, doc := range roots {
		if isKustomization(doc.Node) {
			x.seen[key(doc.Node)] = true
		}
	}
	for _, doc := range roots {
		if p := misfit(doc); p != nil {
			x.Problems = append(x.Problems, *p)
			continue
		}
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
	seen map[string]bool // Kustomizations
}

const maxDepth = 20 // of nested Kustomizations

func (x *expander) fail(at lab.Position, message, cure string) {
	x.Problems = append(x.Problems, lab.Problem{Code: finding.InvalidFlux, Position: at, Message: message, Cure: cure})
}

func isKustomization(n *yaml.Node) bool {
	return strict.Text(n, "kind") == "Kustomization" && strings.HasPrefix(strict.Text(n, "apiVersion"), "kustomize.toolkit.fluxcd.io/")
}

func key(n *yaml.Node) string {
	return strict.Text(n, "metadata", "namespace") + "/" + strict.Text(n, "metadata", "name")
}

// follow builds a Kustomization and then those in it. Faults of a mounted repository are left out, not reported: it is not
// ours to fix.
func (x *expander) follow(doc render.Document, parent *Application, depth int) *Application {
	at := lab.Position{File: doc.File, Line: doc.Line}
	app := &Application{Namespace: strict.Text(doc.Node, "metadata", "namespace"), Name: strict.Text(doc.Node, "metadata", "name"), At: at, Manifest: doc.Node}
	if parent != nil {
		app.Parent, app.mounted = parent.Key(), parent.mounted
	}
	fail := func(at lab.Position, message string) *Application {
		if app.mounted {
			app.stall(message)
			return app
		}
		x.fail(at, message, "")
		app.invalid = message
		return nil
	}
	if depth > maxDepth {
		x.fail(at, fmt.Sprintf("Kustomizations nest more than %d deep", maxDepth), "")
		return nil
	}
	var spec map[string]any
	if n := strict.Get(doc.Node, "spec"); n == nil || n.Decode(&spec) != nil {
		return fail(at, "spec is missing")
	}
	x.conditions(app, doc.Node)
	app.Remote = x.remote(app, doc)
	x.assign(app)
	x.account(app, doc)
	ref := strict.Get(doc.Node, "spec", "sourceRef")
	source := strict.Text(ref, "kind") + " " + cmp.Or(strict.Text(ref, "namespace"), app.Namespace) + "/" + strict.Text(ref, "name")
	if name, ok := strings.CutPrefix(source, sourcev1.OCIRepositoryKind+" "); ok && x.Artifacts && x.of[source] == nil && x.of[sourcev1.GitRepositoryKind+" "+name] != nil {
		source, app.fromOCI = sourcev1.GitRepositoryKind+" "+name, true
	}
	app.source = source
	from, err := x.treeOf(source)
	var absent *Absent
	switch {
	case errors.Is(err, errNoSource):
		app.Missing, app.Path = source, path.Clean(strict.Text(doc.Node, "spec", "path"))
		fail(lab.Position{File: doc.File, Line: cmp.Or(lineOf(ref), doc.Line)}, fmt.Sprintf("Kustomization %s: source %s does not exist", app.Name, source))
		return app
	case errors.As(err, &absent) && absent.Why == "":
		app.Elsewhere = from.url // not in the files
		if app.engine = app.mounted && appliesFlux(doc.Node, from.url); app.engine {
			app.stall(replacesFlux)
		}
		return app
	case err != nil:
		app.stall(source + ": " + err.Error())
		return app
	}
	within := app.mounted
	if app.mounted = from.mounted; app.mounted {
		x.leaveOutRemote(app, doc.Node)
		x.leaveOutIncluding(app)
	}
	app.Path = from.place(strict.Text(doc.Node, "spec", "path"))
	k := render.Kustomization{FS: from.FS, Budget: x.Budget, Path: strict.Text(doc.Node, "spec", "path"), Spec: spec, Variables: x.variables(app, doc), Note: func(p lab.Problem) {
		p.File = from.place(p.File)
		x.Notes = append(x.Notes, p)
	}}
	objects, unset, err := app.build(k, from)
	var invalid *render.Error
	switch {
	case err != nil && within:
		app.stall("cannot be built: " + err.Error())
		return app
	case errors.As(err, &invalid):
		p := invalid.Problem
		p.File = from.place(p.File)
		if invalid.Remote != "" {
			p.Cure = cmp.Or(p.Cure, "lab reads no remote bases: put it into the repository, or leave it out if it is Flux's own, which lab installs")
		}
		x.Problems = append(x.Problems, p)
		app.invalid = p.Message
		return app
	case err != nil:
		x.fail(at, err.Error(), "")
		app.invalid = err.Error()
		return app
	}
	app.Objects, app.Unset, app.Built, app.Place = objects, unset, k, from.place
	literal := ""
	if k.Variables == nil && strict.Get(doc.Node, "spec", "postBuild") != nil {
		literal = x.literal(app)
	}
	if app.engine = app.mounted && parent != nil && installsFlux(objects); app.engine {
		app.stall(replacesFlux)
	}
	if len(unset) > 0 && app.mounted { // strict, like Flux
		app.stall(fmt.Sprintf("variable %s is not set: %s", unset[0].Name, unset[0].At))
	}
	if app.Remote != "" {
		x.leaveOutNested(app)
		x.applied(app)
		return app
	}
	x.leads(app, literal, depth)
	return app
}

// leads follows what an application applies.
func (x *expander) leads(app *Application, literal string, depth int) {
	x.sources(app.Objects)
	x.applied(app)
	for _, o := range app.Objects {
		x.bridged(app.Name, app.Cluster, o)
		switch {
		case ignored(o.Node):
		case strict.Text(o.Node, "kind") == "HelmRelease":
			app.Releases = append(app.Releases, x.release(o))
			app.Releases[len(app.Releases)-1].Remote = x.remote(app, o)
			x.assign(app)
			x.readValues(app, o)
			x.account(app, o)
			if app.mounted {
				x.leaveOutRemote(app, o.Node)
			}
			r := &app.Releases[len(app.Releases)-1]
			if strings.Contains(r.ReleaseName, "${") && literal != "" {
				r.why = cmp.Or(r.why, fmt.Sprintf("HelmRelease %s has the release name %s: %s", r.Name, r.ReleaseName, literal))
			}
			if r.Engine && app.mounted {
				app.stall("HelmRelease " + r.Name + " " + replacesFlux)
			}
			app.LeftOut = cmp.Or(app.LeftOut, r.why)
		case isKustomization(o.Node) && !x.seen[key(o.Node)]:
			x.seen[key(o.Node)] = true
			if below := x.follow(o, app, depth+1); below != nil {
				x.Applications = append(x.Applications, *below)
			}
		}
	}
}

func lineOf(n *yaml.Node) int {
	if n == nil {
		return 0
	}
	return n.Line
}
