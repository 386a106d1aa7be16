package fluxset

import (
	"cmp"
	"errors"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"time"

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
	Contents   func(Release) []render.Document                                // objects of a release's chart, if it may have some of Flux; may be nil
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
	VariablesAt     map[string]lab.Position  `json:"-"` // where they are set
	Reads           []Read

	Parent    string   // key of the Kustomization that applies it; empty for a root
	Release   string   // HelmRelease of Parent whose chart has it; empty for none
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

	Set       *resourceset.Set `json:"-"` // that it is; nil for a Kustomization
	dependsOn []dependency     // of the set
	idle      bool             // left out for no other reason than that lab's Flux has no operator

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

// Key returns NAMESPACE/NAME, which a Kustomization may share with a ResourceSet: that has its kind before it.
func (a Application) Key() string {
	if a.Set != nil {
		return resourceset.Kind + " " + a.Namespace + "/" + a.Name
	}
	return a.Namespace + "/" + a.Name
}

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

	data    map[string]map[string]string // of applied ConfigMaps and Secrets, by Read.key
	holders map[string]render.Document   // the objects of data
	supply  supply
}

// Has reports whether an application applies a ConfigMap, Secret or ServiceAccount.
func (x Expansion) Has(r Read) bool { return x.data[r.key()] != nil }

// Expand follows the Kustomizations in a root's file, and repeats if one needs an object that a later one applies.
func Expand(w World, file string) Expansion {
	from, data := &origins{url: map[string]string{}, of: map[string]*yaml.Node{}, files: map[string]fs.FS{}, made: map[string]tree{}}, map[string]map[string]string{}
	holders := map[string]render.Document{}
	for {
		known := len(data) + len(from.of)
		x := &expander{World: w, Expansion: Expansion{Sources: from.url, data: data, holders: holders}, seen: map[string]bool{}, origins: from}
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

func lineOf(n *yaml.Node) int {
	if n == nil {
		return 0
	}
	return n.Line
}
