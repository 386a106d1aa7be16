// Package resourceset expands ResourceSets of Flux Operator, as far as the files determine them: https://fluxoperator.dev/docs/crd/resourceset/
package resourceset

import (
	"fmt"
	"slices"
	"text/template"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// The kinds of Flux Operator that take part.
const (
	Group    = "fluxcd.controlplane.io"
	Kind     = "ResourceSet"
	Provider = "ResourceSetInputProvider"

	apiVersion = Group + "/v1"
	reconcile  = Group + "/reconcile"
)

// Set is a ResourceSet, with what it refers to.
type Set struct {
	render.Document
	Providers []render.Document                                    // ResourceSetInputProviders
	Data      func(kind, namespace, name string) map[string]string // of a ConfigMap or Secret; nil if it is not known
	Step      func(n int) error                                    // spends steps of templates; may be nil
}

// expansion is a set that is being expanded.
type expansion struct {
	Set
	*engine
	objects []render.Document
	seen    map[string]string // steps by the objects in them
	unknown lab.Problems
}

// Expand returns the objects that the operator makes of a set, and what is not known of them. Its errors are *render.Error.
func (s Set) Expand() (objects []render.Document, unknown lab.Problems, err error) {
	x := &expansion{Set: s, engine: newEngine(s.Step), seen: map[string]string{}}
	if disabled(s.Node) {
		return []render.Document{}, nil, nil
	}
	inputs, err := x.inputSets()
	if err != nil {
		return nil, x.unknown, err
	}
	sources, err := x.sources()
	if err != nil {
		return nil, x.unknown, err
	}
	for _, of := range sources {
		for _, in := range inputs {
			if err := x.add(of, in); err != nil {
				return nil, x.unknown, err
			}
		}
	}
	return x.objects, x.unknown, nil
}

// disabled reports whether the operator ignores an object.
func disabled(n *yaml.Node) bool {
	return strict.Text(n, "metadata", "annotations", reconcile) == "disabled"
}

func (s Set) namespace() string { return strict.Text(s.Node, "metadata", "namespace") }

func (s Set) title() string { return strict.Title(s.Node) }

// fail returns the reason that the operator makes nothing of a set.
func (s Set) fail(n *yaml.Node, message, cure string) error {
	return &render.Error{Problem: lab.Problem{Code: finding.InvalidFlux, Position: s.at(n), Message: s.title() + ": " + message, Cure: cure}}
}

// note says what is not known.
func (x *expansion) note(at lab.Position, format string, args ...any) {
	p := lab.Problem{Code: finding.UnknownOutput, Position: at, Message: x.title() + ": " + fmt.Sprintf(format, args...)}
	if !slices.Contains(x.unknown, p) {
		x.unknown = append(x.unknown, p)
	}
}

// source is what objects are made of: an element of spec.resources, or spec.resourcesTemplate.
type source struct {
	*template.Template
	text   string
	path   string // spec.resources[0]
	node   *yaml.Node
	single bool   // of spec.resources
	step   string // its name; empty without steps
}

// sources returns the templates of a set, in order.
func (x *expansion) sources() (list []source, err error) {
	spec := strict.Get(x.Node, "spec")
	if list, err = x.sourcesOf(spec, "spec"); err != nil {
		return nil, err
	}
	steps := strict.List(spec, "steps")
	switch {
	case len(list) > 0 && len(steps) > 0:
		return nil, x.fail(strict.Get(spec, "steps"), "spec.steps excludes spec.resources and spec.resourcesTemplate", "move them to a step")
	case len(list)+len(steps) == 0 && strict.Get(spec, "resources") == nil:
		return nil, x.fail(spec, "makes nothing", "write spec.resources, spec.resourcesTemplate or spec.steps")
	}
	for i, step := range steps {
		of, err := x.sourcesOf(step, fmt.Sprintf("spec.steps[%d]", i))
		if err != nil {
			return nil, err
		}
		for j := range of {
			of[j].step = strict.Text(step, "name")
		}
		list = append(list, of...)
	}
	return list, nil
}

func (x *expansion) sourcesOf(spec *yaml.Node, path string) (list []source, err error) {
	for i, n := range strict.List(spec, "resources") {
		text, err := strict.JSON(n)
		if err == nil {
			text, err = sigsyaml.JSONToYAML(text)
		}
		if err != nil {
			return nil, x.fail(n, err.Error(), "")
		}
		list = append(list, source{text: string(text), path: fmt.Sprintf("%s.resources[%d]", path, i), node: n, single: true})
	}
	if n := strict.Get(spec, "resourcesTemplate"); n != nil && n.Kind == yaml.ScalarNode {
		list = append(list, source{text: n.Value, path: path + ".resourcesTemplate", node: n})
	}
	for i := range list {
		if list[i].Template, err = x.parse("t", list[i].text); err != nil {
			return nil, x.failed(list[i], err)
		}
	}
	return list, nil
}
