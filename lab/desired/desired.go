// Package desired is what an engine will have: the applications of each cluster, and their objects, rendered on demand.
package desired

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/provenance"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// App is an Application of Argo CD, or a Kustomization of Flux with its HelmReleases.
type App struct {
	lab.Application
	Engine   lab.EngineType
	At       lab.Position
	Manifest any // as JSON encodes it; nil if it has none
	Parts    []Part
	Last     bool   // of several objects of a name, the engine applies the last one
	Set      string // ApplicationSet that generates it; empty for none
	Kept     string // why the engine does not delete it when it is no longer desired; empty if it does
	Fixed    string // why the engine leaves it as it is when it becomes another; empty if it does not
	Foreign  bool   // another program would apply it, which a lab does not have

	Layers  func() []Layer // may be nil
	Matches []appset.Match
}

// Layer is an entry that names values outside of a chart: a value file, or a ConfigMap or Secret of Flux.
type Layer struct {
	At       lab.Position
	Entry    string // as written, but for templates
	File     string // as users know it, or a pattern; empty for an object
	Object   string // KIND NAMESPACE/NAME
	Key      string // in Object; empty for all
	Exists   bool
	Optional bool // the engine leaves it out, if it does not exist
}

// Reason is why a cluster has an application, or why not.
type Reason struct {
	lab.Position
	Text string
}

// Part is a source of an Application, a Kustomization without its HelmReleases, or one of these.
type Part struct {
	Name      string // of a HelmRelease; empty for others
	Cluster   string // of its objects
	Namespace string // of objects without one; empty if Render has set it
	Render    func() ([]render.Document, error)

	Subject func() (provenance.Subject, error) // for provenance.Trace

	// Inputs returns a digest of everything that Render reads, without rendering: parts with the same digest have the same objects. Nil, or empty, is unknown.
	Inputs func() string

	// Mentions reports whether something that Render reads may lead to objects whose text has a word, without rendering. Nil is unknown.
	Mentions func(word string) bool
}

// Object is an object that an engine applies.
type Object struct {
	render.Document
	Part    string // HelmRelease; empty for others
	Source  int    // index of the part
	Cluster string
	Hook    string // "PreSync", "pre-install,pre-upgrade"; empty for none
	Wave    int    // of Argo CD
}

// ID returns KIND NAME, or KIND NAMESPACE/NAME.
func (o Object) ID() string {
	name := cmp.Or(strict.Text(o.Node, "metadata", "name"), strict.Text(o.Node, "metadata", "generateName")+"*")
	if namespace := strict.Text(o.Node, "metadata", "namespace"); namespace != "" {
		name = namespace + "/" + name
	}
	return strict.Text(o.Node, "kind") + " " + name
}

// Objects renders an application. Parts that cannot be rendered are problems; the objects of the others are returned nevertheless.
func (a App) Objects() ([]Object, lab.Problems) {
	objects, failed := a.Rendered()
	var problems lab.Problems
	for _, f := range failed {
		problem := f.Problem
		problem.Message = f.title(a) + ": " + problem.Message
		problems = append(problems, problem)
	}
	return objects, problems
}

// Failed is a part that cannot be rendered.
type Failed struct {
	Source  int // index of the part
	Part    string
	Problem lab.Problem // without the name of the application
}

func (f Failed) title(a App) string {
	if f.Part != "" {
		return a.Name + ": HelmRelease " + f.Part
	}
	return a.Name
}

// Rendered is Objects with the parts that cannot be rendered.
func (a App) Rendered() ([]Object, []Failed) {
	var objects []Object
	var failed []Failed
	for i, p := range a.Parts {
		docs, err := p.Render()
		if err != nil {
			failed = append(failed, Failed{i, p.Name, a.problemAt(err)})
		}
		var made []Object
		for _, d := range docs {
			for _, n := range strict.Items(d.Node) {
				if strict.Text(n, "kind") == "" {
					continue
				}
				o := Object{Document: render.Document{Node: n, File: d.File}, Part: p.Name, Source: i, Cluster: p.Cluster}
				o.Hook = a.hook(p, n)
				o.Wave, _ = strconv.Atoi(strict.Text(n, "metadata", "annotations", argo.SyncWave)) // Argo CD treats anything but a number as 0
				made = append(made, o)
			}
		}
		if p.Namespace != "" {
			place(made, p.Namespace)
		}
		objects = append(objects, made...)
	}
	if a.Last {
		objects = last(objects)
	}
	return objects, failed
}

// Explained is an object with the origins of its fields.
type Explained struct {
	Object
	Fields []provenance.Field
}

// Explain renders an application, and finds where the fields of its objects come from: see package provenance. Namespaces that an engine adds are missing.
func (a App) Explain() ([]Explained, lab.Problems) {
	var list []Explained
	var problems lab.Problems
	for _, p := range a.Parts {
		subject, err := p.Subject()
		var found provenance.Result
		if err == nil {
			found, err = provenance.Trace(subject)
		}
		if err != nil {
			problems = append(problems, a.problem(p, err))
			continue
		}
		first := len(list)
		for _, d := range found.Documents {
			list = append(list, Explained{Object: Object{Document: d, Part: p.Name, Cluster: p.Cluster}})
		}
		for _, f := range found.Fields {
			of := &list[first+f.Object]
			of.Fields = append(of.Fields, f)
		}
		if !found.Complete {
			problems = append(problems, a.problem(p, fmt.Errorf("only the first %d renderings were tried, so that values may be missing", provenance.Limit)))
		}
	}
	return list, problems
}

// problem is the reason that a part lacks objects.
func (a App) problem(p Part, err error) lab.Problem {
	problem := a.problemAt(err)
	problem.Message = Failed{Part: p.Name}.title(a) + ": " + problem.Message
	return problem
}

func (a App) problemAt(err error) lab.Problem {
	problem := lab.Problem{Position: a.At, Message: err.Error()}
	if known := new(render.Error); errors.As(err, &known) {
		problem = known.Problem
	}
	if problem.File == "" {
		problem.Position = a.At
	}
	problem.Line = max(problem.Line, 1)
	return problem
}

// hook returns what makes an object a hook: for Flux, only Helm's annotation in releases.
func (a App) hook(p Part, n *yaml.Node) string {
	helm := strict.Text(n, "metadata", "annotations", "helm.sh/hook")
	switch {
	case a.Engine != lab.EngineFlux:
		return cmp.Or(strict.Text(n, "metadata", "annotations", argo.Hook), helm)
	case p.Name == "":
		return ""
	}
	return helm
}

// place sets the namespace of objects without one, unless their kind is known to be of the cluster, and removes that of others, as Argo CD does in
// NormalizeTargetObjects, and Helm.
func place(objects []Object, namespace string) {
	defined := map[string]bool{} // kinds of the cluster
	for _, o := range objects {
		if strict.Text(o.Node, "kind") == "CustomResourceDefinition" && strict.Text(o.Node, "spec", "scope") == "Cluster" {
			defined[strict.Text(o.Node, "spec", "group")+" "+strict.Text(o.Node, "spec", "names", "kind")] = true
		}
	}
	for i := range objects {
		o := &objects[i]
		namespaced, known := render.Namespaced(o.Document)
		if !known {
			namespaced = !defined[o.group()+" "+strict.Text(o.Node, "kind")]
		}
		switch has := strict.Text(o.Node, "metadata", "namespace"); {
		case namespaced && has == "":
			o.Node = withNamespace(o.Node, namespace)
		case !namespaced && has != "":
			o.Node = withNamespace(o.Node, "")
		}
	}
}

func (o Object) group() string {
	return schema.FromAPIVersionAndKind(strict.Text(o.Node, "apiVersion"), "").Group
}

// last returns the last object of each name.
func last(objects []Object) []Object {
	key := func(o Object) string { return o.group() + " " + o.ID() }
	at := map[string]int{}
	for i, o := range objects {
		at[key(o)] = i
	}
	var kept []Object
	for i, o := range objects {
		if at[key(o)] == i || strict.Text(o.Node, "metadata", "name") == "" {
			kept = append(kept, o)
		}
	}
	return kept
}

// withNamespace returns an object in a namespace, or in none. It shares nodes with the original.
func withNamespace(object *yaml.Node, namespace string) *yaml.Node {
	n, metadata := strict.Copy(object), &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	if old := strict.Get(object, "metadata"); old != nil {
		metadata = strict.Copy(old)
	}
	strict.Set(metadata, "namespace", nil)
	if namespace != "" {
		strict.Set(metadata, "namespace", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: namespace})
	}
	strict.Set(n, "metadata", metadata)
	return n
}
