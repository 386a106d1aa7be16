package appset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"

	"dario.cat/mergo"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"homelab/lab"
)

// InCluster is the address by which Argo CD calls the cluster that it runs in, and the name that it gives to it where no registration does.
const (
	InCluster     = "https://kubernetes.default.svc"
	InClusterName = "in-cluster"
)

// finalizer has the resources of an Application removed with it; it is given to those that have none of their own.
const finalizer = "resources-finalizer.argocd.argoproj.io"

// World is what ApplicationSets are expanded against.
type World struct {
	Namespace string    // of the ApplicationSets, and of their Applications
	Clusters  []Cluster // in the order of the names of their Secrets

	// Project reports whether an AppProject is there. Nil: all are.
	Project func(name string) bool
	// Repository is the tree of a Git repository at a revision; only files that Git tracks, and folders with one in them. A nil tree is
	// one that cannot be had here. Nil: none can.
	Repository func(url, revision string) (fs.FS, error)
}

// Cluster is the registration of a cluster. Its labels carry the one by which Argo CD finds it.
type Cluster struct {
	Name        string
	Server      string
	Project     string
	Labels      map[string]string
	Annotations map[string]string
}

// The words by which an ApplicationSet's status says where it failed.
const (
	ReasonParameters = "ApplicationGenerationFromParamsError"
	ReasonTemplate   = "RenderTemplateParamsError"
	ReasonInvalid    = "ApplicationValidationError"
	ReasonRefused    = "UpdateApplicationError"

	ReasonPanic = "Panic" // no word of the controller's, which comes to no end
)

// Expansion is what becomes of an ApplicationSet.
type Expansion struct {
	Applications []Application // by name
	Invalid      []Invalid     // generated, and not made
}

// Application is one that an ApplicationSet makes.
type Application struct {
	Template
	Cluster string // name of the registration that it goes to

	origin origin
}

// Invalid is an Application that is generated, and that the controller or the API server refuses.
type Invalid struct {
	Name    string
	Reason  string // ReasonInvalid or ReasonRefused
	Message string
	Cure    string // may be empty
	Twice   bool   // another of the set has its name
	lab.Position

	Destination Destination
}

// Error says why an ApplicationSet generates nothing at all.
type Error struct {
	Reason   string // of the first problem
	Problems lab.Problems
}

func (e *Error) Error() string { return e.Problems.Error() }

// UnknownError names a generator, or a function, whose result is known to a running controller alone.
type UnknownError struct {
	lab.Position
	What   string
	Reason string // why it is not known; empty for what a running controller alone knows
}

func (e *UnknownError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("%s: what a %s generates is not known: %s", e.Position, e.What, e.Reason)
	}
	return fmt.Sprintf("%s: what a %s generates is known to the running engine alone", e.Position, e.What)
}

// AbsentError is World.Repository's for a repository that is at hand and does not have a revision.
type AbsentError struct{ Reason string }

func (e *AbsentError) Error() string { return e.Reason }

// failure is an error of one place in an ApplicationSet.
type failure struct {
	at     *yaml.Node
	reason string
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func failed(at *yaml.Node, format string, args ...any) error {
	return &failure{at: at, reason: ReasonParameters, err: fmt.Errorf(format, args...)}
}

// Expand works out which Applications the set makes. The error is an *Error where it makes none for a fault of its own, and an *UnknownError where that
// cannot be told here; anything else is of w.Repository.
func (s *Set) Expand(w World) (*Expansion, error) {
	if n, what := s.nondeterministic(); n != nil {
		return nil, &UnknownError{Position: s.at(n), What: what}
	}
	x := expander{Set: s, World: w}
	var all []Application
	var fault *Error
	for i := range s.Spec.Generators {
		node := child(s.node, "spec", "generators", fmt.Sprint(i))
		results, err := x.generate(&s.Spec.Generators[i], node)
		if err != nil {
			if fault, err = s.collect(fault, err, node); err != nil {
				return nil, err
			}
			continue
		}
		for _, r := range results {
			apps, err := x.applications(r)
			if err != nil {
				if fault, err = s.collect(fault, err, node); err != nil {
					return nil, err
				}
				continue
			}
			all = append(all, apps...)
		}
	}
	if fault != nil {
		return nil, fault
	}
	return x.judge(all), nil
}

// Selects names the clusters whose registrations the set's generators pick, whether or not its template can be rendered with them.
func (s *Set) Selects(w World) (map[string]bool, error) {
	x := expander{Set: s, World: w}
	picked := map[string]bool{}
	for i := range s.Spec.Generators {
		results, err := x.generate(&s.Spec.Generators[i], child(s.node, "spec", "generators", fmt.Sprint(i)))
		if err != nil {
			return nil, err
		}
		for _, r := range results {
			for _, p := range r.params {
				for _, c := range p.from {
					if c.cluster != "" {
						picked[c.cluster] = true
					}
				}
			}
		}
	}
	return picked, nil
}

// collect adds an error to those of the set, or returns it where it is none of the set's.
func (s *Set) collect(to *Error, err error, node *yaml.Node) (*Error, error) {
	var unknown *UnknownError
	if errors.As(err, &unknown) {
		return to, unknown
	}
	var f *failure
	if !errors.As(err, &f) {
		return to, err
	}
	if to == nil {
		to = &Error{Reason: f.reason}
	}
	if f.at != nil {
		node = f.at
	}
	to.Problems = append(to.Problems, lab.Problem{Position: s.at(node), Message: f.err.Error()})
	return to, nil
}

type expander struct {
	*Set
	World
}

// generate is what a generator of the top level makes. Where merged parameters are of different types the library that merges them panics, here and in the
// controller, which then tries again for ever.
func (x *expander) generate(g *Generator, node *yaml.Node) (results []result, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &failure{at: node, reason: ReasonPanic, err: fmt.Errorf("the engine panics at this: %v", r)}
		}
	}()
	return x.transform(g, node, x.Spec.Template, nil)
}

// result is what one generator makes: parameters, and the template that they go into.
type result struct {
	params   []paramSet
	template Template
	origin   *yaml.Node // of the generator's own template; nil where it has none
}

func (x *expander) applications(r result) ([]Application, error) {
	apps := make([]Application, 0, len(r.params))
	for _, p := range r.params {
		app, err := x.application(r, p)
		if err != nil {
			return nil, err
		}
		apps = append(apps, app)
	}
	return apps, nil
}

func (x *expander) application(r result, p paramSet) (Application, error) {
	app := Application{Template: r.template, origin: origin{set: x.Set, params: p, template: r.origin}}
	if len(p.values) > 0 { // without parameters a template stays as it is written
		rendered, err := renderAll(x.compiled, r.template, p.values)
		if err != nil {
			return app, &failure{at: x.fieldNode(r.origin, err), reason: ReasonTemplate, err: err}
		}
		app.Template = rendered
		if policy := x.Spec.SyncPolicy; len(app.Metadata.Finalizers) == 0 && (policy == nil || !policy.PreserveResourcesOnDeletion) {
			app.Metadata.Finalizers = []string{finalizer}
		}
	}
	if x.Spec.TemplatePatch != nil {
		patched, err := x.patch(app.Template, p)
		if err != nil {
			return app, &failure{at: child(x.node, "spec", "templatePatch"), reason: ReasonTemplate, err: err}
		}
		app.Template = patched
	}
	app.Metadata.Namespace = x.World.Namespace
	return app, nil
}

// fieldNode is where the field of a template is written that could not be rendered.
func (x *expander) fieldNode(own *yaml.Node, err error) *yaml.Node {
	var f *fieldError
	if !errors.As(err, &f) {
		return nil
	}
	path := slices.Clone(f.path)
	slices.Reverse(path)
	return templateNode(own, x.node, path)
}

// templateNode is where a field of a template is written: in the generator's own, or else in that of the set.
func templateNode(own, doc *yaml.Node, path []string) *yaml.Node {
	for _, root := range []*yaml.Node{own, child(doc, "spec", "template")} {
		if n := child(root, path...); n != nil {
			return n
		}
	}
	return nil
}

func (x *expander) patch(app Template, p paramSet) (Template, error) {
	text, err := x.compiled.replace(*x.Spec.TemplatePatch, p.values)
	if err != nil {
		return app, err
	}
	patch, err := toJSON([]byte(text))
	if err != nil {
		return app, err
	}
	if err := json.Unmarshal(patch, new(Template)); err != nil {
		return app, fmt.Errorf("templatePatch is no part of an Application: %w", err)
	}
	before, err := json.Marshal(app)
	if err != nil {
		return app, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, Template{})
	if err != nil {
		return app, err
	}
	var patched Template
	if err := json.Unmarshal(after, &patched); err != nil {
		return app, err
	}
	patched.Spec.Project = app.Spec.Project // which project rules an Application is not for a patch to say
	return patched, nil
}

// mergeTemplates fills what a generator's own template leaves out from that of the set.
func mergeTemplates(own, base Template) (Template, error) {
	err := mergo.Merge(&own, base)
	return own, err
}

// hasTemplate reports whether a generator has a template of its own.
func hasTemplate(t Template) bool { return !reflect.DeepEqual(t, Template{}) }
