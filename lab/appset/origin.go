package appset

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab"
	"homelab/lab/strict"
)

// contribution is one generator's part of a parameter set.
type contribution struct {
	node      *yaml.Node
	generator string         // list, clusters, git
	cluster   string         // registration of a clusters generator
	file      string         // file or folder of a git generator
	pattern   string         // that matched the file; empty for a folder
	values    map[string]any // of a list element or a file
}

// String names what a generator took the parameters from: cluster dev, apps/web, the element at line 12.
func (c contribution) String() string {
	switch {
	case c.cluster != "":
		return "cluster " + c.cluster
	case c.pattern != "":
		return c.file + " (" + c.pattern + ")"
	case c.file != "":
		return c.file
	case c.node != nil && c.node.Line > 0:
		return fmt.Sprintf("the element at line %d", c.node.Line)
	}
	return "a generator"
}

// String names what the parameters are from.
func (p paramSet) String() string {
	var names []string
	for _, c := range p.from {
		if name := c.String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " with ")
}

// clashing lists parameter sets that have something in common, at most ten.
func clashing(sets []paramSet) string {
	const most = 10
	var names []string
	for _, p := range sets[:min(most, len(sets))] {
		names = append(names, p.String())
	}
	if more := len(sets) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// gives reports whether a parameter comes from this generator, judging by its path.
func (c contribution) gives(path []string) bool {
	switch c.generator {
	case "clusters":
		return slices.Contains([]string{"name", "nameNormalized", "server", "project", "metadata", "clusters"}, path[0]) || c.value(path) != nil
	case "git":
		return path[0] == "path" || c.value(path) != nil || c.values == nil || lookup(c.values, path)
	}
	return lookup(c.values, path)
}

// value returns the node of a value: from the generator's values, or a list element.
func (c contribution) value(path []string) *yaml.Node {
	if c.generator != "list" && path[0] != "values" {
		return nil
	}
	return nodeAt(c.node, path)
}

// nodeAt returns the node at a path of keys and list indexes, or nil.
func nodeAt(n *yaml.Node, path []string) *yaml.Node {
	for _, step := range path {
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && n != nil && n.Kind == yaml.SequenceNode {
			n = strict.Get(n, i)
		} else {
			n = strict.Get(n, step)
		}
	}
	return n
}

func lookup(values map[string]any, path []string) bool {
	if _, ok := values[strings.Join(path, ".")]; ok {
		return true
	}
	var v any = values
	for _, step := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return false
		}
		if v, ok = m[step]; !ok {
			return false
		}
	}
	return true
}

type origin struct {
	set      *Set
	params   paramSet
	template *yaml.Node // of the generator, or nil
}

// Origin is the source of a value of an Application.
type Origin struct {
	lab.Position        // of the value, or of its generator
	Parameter    string // as in a template: metadata.annotations.addons_repo_url; empty for the field itself
	Generator    string // list, clusters, git; empty for the field itself
	Cluster      string // whose registration was read
	Label        string // key of the label
	Annotation   string // key of the annotation
	File         string // file or folder of a git generator
	Exact        bool   // the value is literally there, without templates
}

// Origins returns the sources of a field: first the line in the template, then each parameter used there. The path
// leads from the Application down, with list indexes: "spec", "sources", "1", "targetRevision".
func (a *Application) Origins(path ...string) []Origin {
	o := a.origin
	node := templateNode(o.template, o.set.node, path)
	if node == nil {
		return nil
	}
	out := []Origin{{Position: o.set.at(node), Exact: node.Kind == yaml.ScalarNode && !strings.Contains(node.Value, "{{")}}
	for _, ref := range o.set.refs(node) {
		out = append(out, o.of(ref))
	}
	return out
}

func (o origin) of(ref Ref) Origin {
	out := Origin{Parameter: strings.Join(ref.Path, ".")}
	for _, c := range slices.Backward(o.params.from) {
		if !c.gives(ref.Path) {
			continue
		}
		value := c.value(ref.Path)
		out.Position, out.Generator, out.Cluster, out.File = o.set.at(cmp.Or(value, c.node)), c.generator, c.cluster, c.file
		out.Exact = value != nil && value.Kind == yaml.ScalarNode && !strings.Contains(value.Value, "{{")
		if len(ref.Path) > 2 && ref.Path[0] == "metadata" {
			key := strings.Join(ref.Path[2:], ".")
			switch ref.Path[1] {
			case "labels":
				out.Label = key
			case "annotations":
				out.Annotation = key
			}
		}
		break
	}
	return out
}

// Match is a file or folder from which a git generator took parameters.
type Match struct {
	lab.Position // of the generator
	File         string
	Pattern      string // that matched the file; empty for a folder
}

// Matches returns the files and folders that an Application was generated for.
func (a *Application) Matches() []Match {
	var list []Match
	for _, c := range a.origin.params.from {
		if c.generator == "git" && c.file != "" && c.node != nil {
			list = append(list, Match{a.origin.set.at(c.node), c.file, c.pattern})
		}
	}
	return list
}

// Selectors returns the selectors of all clusters generators, nested ones included.
func (s *Set) Selectors() []metav1.LabelSelector {
	var list []metav1.LabelSelector
	for i := range s.Spec.Generators {
		list = append(list, s.Spec.Generators[i].selectors()...)
	}
	return list
}

// Asked is Selectors with the parameters of the first generator of each matrix, or as written if these are unknown.
func (s *Set) Asked(w World) []metav1.LabelSelector {
	s = s.before(w.Minor)
	s.compiled.begin(w.Minor)
	var list []metav1.LabelSelector
	for i := range s.Spec.Generators {
		g := &s.Spec.Generators[i]
		x := expander{Set: s, World: w, asked: &[]metav1.LabelSelector{}}
		_, err := x.generate(g, strict.Get(s.node, "spec", "generators", i))
		if err != nil || len(*x.asked) == 0 {
			*x.asked = g.selectors()
		}
		for _, selector := range *x.asked {
			if !slices.ContainsFunc(list, func(o metav1.LabelSelector) bool { return reflect.DeepEqual(o, selector) }) {
				list = append(list, selector)
			}
		}
	}
	return list
}

func (g *Generator) selectors() []metav1.LabelSelector {
	var list []metav1.LabelSelector
	if g.Clusters != nil {
		list = append(list, g.Clusters.Selector)
	}
	var inner []Child
	if g.Matrix != nil {
		inner = append(inner, g.Matrix.Generators...)
	}
	if g.Merge != nil {
		inner = append(inner, g.Merge.Generators...)
	}
	return append(list, selectorsOf(inner)...)
}

func selectorsOf(children []Child) []metav1.LabelSelector {
	var list []metav1.LabelSelector
	for _, c := range children {
		if c.Clusters != nil {
			list = append(list, c.Clusters.Selector)
		}
		for _, nested := range []*JSON{c.Matrix, c.Merge} {
			var within struct{ Generators []Leaf }
			if nested != nil && json.Unmarshal(nested.Raw, &within) == nil {
				list = append(list, selectorsOf(childrenOf(within.Generators))...)
			}
		}
	}
	return list
}
