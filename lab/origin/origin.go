// Package origin finds where the fields of rendered objects come from, by experiment: it changes one value of the input at a time, renders again, and
// compares. So it holds for whatever makes the objects: charts, patches, replacements, substitution. What no experiment reaches is where the renderer says
// that it is written, or unknown.
package origin

import (
	"cmp"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// Subject is something that is rendered from files and options.
type Subject struct {
	Options map[string]any // as JSON decodes it

	// Render renders with other options, nil for its own. open replaces each tree of files, unless it is nil; the tree of the subject itself is "".
	Render func(options map[string]any, open func(tree string, files FS) FS) ([]render.Document, error)

	// Name returns the name of a file for users, and At the position of an option, and what set it, the most specific first.
	Name func(tree, file string) string
	At   func(path []string) []lab.Position
}

// Value is a value of the input.
type Value struct {
	lab.Position        // zero if only Path is known
	Path         string // in its file, or in the options
	Option       bool
	Text         string
}

// Field is a field of a rendered object without fields of its own.
type Field struct {
	Object int    // index of the document
	Path   string // spec.containers[0].image
	Text   string
	At     lab.Position // where it is written: in a template, a manifest or a patch; zero if unknown
	From   []Value      // values that change it; none for what is literally at At
}

// Traced reports whether it is known where the field comes from.
func (f Field) Traced() bool { return len(f.From) > 0 || f.At.Line > 0 }

// Limit is the number of renderings of one subject.
const Limit = 5000

// Trace renders a subject, and returns the fields of its objects. Without enough renderings, those that remain have only their position: complete is false.
func Trace(s Subject) (fields []Field, complete bool, err error) {
	t := &tracer{Subject: s, left: Limit, from: map[int][]Value{}}
	base, inputs, err := t.first()
	if err != nil {
		return nil, false, err
	}
	t.base, t.inputs = base, inputs
	t.search(inputs)
	for i := range base.fields {
		f := &base.fields[i]
		f.From = t.from[i]
	}
	return base.fields, t.left > 0, nil
}

type tracer struct {
	Subject
	base   outcome
	inputs []input
	from   map[int][]Value // by index of the field
	left   int             // renderings
}

// outcome is what was rendered, in a comparable form.
type outcome struct {
	fields []Field
	index  map[string]int // of fields, by object and path
}

// flatten returns the fields of documents. Objects are known by kind, file and place among these, as names may change.
func flatten(docs []render.Document) outcome {
	o := outcome{index: map[string]int{}}
	count := map[string]int{}
	for i, d := range docs {
		id := strict.Text(d.Node, "kind") + " " + d.File
		count[id]++
		id = fmt.Sprintf("%s %d ", id, count[id])
		walk(d.Node, "", func(path string, n *yaml.Node) {
			f := Field{Object: i, Path: path, Text: n.Value}
			if n.Line > 0 {
				f.At = lab.Position{File: d.File, Line: n.Line}
			}
			o.index[id+path] = len(o.fields)
			o.fields = append(o.fields, f)
		})
	}
	return o
}

// walk visits scalars, and lists and mappings without elements.
func walk(n *yaml.Node, path string, visit func(path string, n *yaml.Node)) {
	switch n.Kind {
	case yaml.DocumentNode:
		for _, c := range n.Content {
			walk(c, path, visit)
		}
	case yaml.AliasNode:
		walk(n.Alias, path, visit)
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			walk(n.Content[i+1], join(path, n.Content[i].Value), visit)
		}
	case yaml.SequenceNode:
		for i, c := range n.Content {
			walk(c, fmt.Sprintf("%s[%d]", path, i), visit)
		}
	default:
		visit(path, n)
		return
	}
	if len(n.Content) == 0 && n.Kind != yaml.AliasNode {
		visit(path, n)
	}
}

// search tries inputs together, and apart if that changes something or fails.
func (t *tracer) search(inputs []input) {
	if len(inputs) == 0 || t.left <= 0 {
		return
	}
	t.left--
	changed, err := t.try(inputs)
	switch {
	case err == nil && len(changed) == 0:
	case len(inputs) > 1:
		half := len(inputs) / 2
		t.search(inputs[:half])
		t.search(inputs[half:])
	case err != nil:
		t.rename(inputs[0])
	default:
		for _, i := range changed {
			t.from[i] = append(t.from[i], inputs[0].Value)
		}
	}
}

// rename changes a value that cannot be changed alone together with all that are equal, such as the name of an object that others refer to. That says
// where it comes from only for the field that is written in the same place.
func (t *tracer) rename(in input) {
	var equal []input
	for _, other := range t.inputs {
		if other.Text == in.Text && in.Text != "" {
			equal = append(equal, other)
		}
	}
	if len(equal) < 2 || t.left <= 0 {
		return
	}
	t.left--
	changed, err := t.try(equal)
	if err != nil {
		return
	}
	for _, i := range changed {
		if i != none && t.base.fields[i].At == in.Position {
			t.from[i] = append(t.from[i], in.Value)
		}
	}
}

// none stands for what a change adds or removes.
const none = -1

// try renders with changed inputs, and returns the fields that differ, and none if fields come or go.
func (t *tracer) try(inputs []input) ([]int, error) {
	docs, err := t.render(inputs)
	if err != nil {
		return nil, err
	}
	after := flatten(docs)
	var changed []int
	for key, i := range t.base.index {
		j, still := after.index[key]
		switch {
		case !still:
			changed = append(changed, none)
		case after.fields[j].Text != t.base.fields[i].Text:
			changed = append(changed, i)
		}
	}
	if len(after.index) > len(t.base.index) {
		changed = append(changed, none)
	}
	slices.SortFunc(changed, func(a, b int) int { return cmp.Compare(a, b) })
	return slices.Compact(changed), nil
}
