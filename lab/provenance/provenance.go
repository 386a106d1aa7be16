// Package provenance finds where the fields of rendered objects come from, by experiment: it changes one value of the input at a time, renders again, and
// compares. So it holds for whatever makes the objects: charts, patches, replacements, substitution. What no experiment reaches is unknown.
package provenance

import (
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// Subject is something that is rendered from files and options.
type Subject struct {
	Options map[string]any // as JSON decodes it

	// Render renders with other options, nil for its own. open replaces each tree of files, unless it is nil; the tree of the subject itself is "".
	Render func(options map[string]any, open func(tree string, files fs.FS) fs.FS) ([]render.Document, error)

	// Layers are files of which the last one with a path wins, but for the values of the options under ValuesAt.
	Layers   []render.Layer
	ValuesAt string // "helm.valuesObject."

	// Name returns the name of a file for users, and At the position of an option, and of what set it.
	Name func(tree, file string) string
	At   func(path []string) []lab.Position
}

// Value is a value of the input.
type Value struct {
	lab.Position        // zero if only Path is known
	Path         string // in its file, or in the options
	Text         string

	By   []lab.Position // what set an option: parameters of a set
	Over []Value        // values of earlier layers that it overrides, the last one first
}

// Field is a field of a rendered object without fields of its own.
type Field struct {
	Object int    // index of the document
	Path   string // spec.containers[0].image
	Text   string
	At     lab.Position // where it is written: in a template or a manifest; zero if unknown
	From   []Value      // values that change it; none for what is literally at At
	Random bool         // it differs each time that it is rendered: a random value, a date
}

// Limit is the number of renderings of one subject.
const Limit = 5000

// Result is what Trace found.
type Result struct {
	Documents []render.Document
	Fields    []Field // of all documents, in their order
	Complete  bool    // false if Limit was reached: values that were not tried are missing
}

// Trace renders a subject, and finds where the fields of its objects come from.
func Trace(s Subject) (Result, error) {
	t := &tracer{Subject: s, left: Limit, from: map[int][]input{}}
	var err error
	var docs []render.Document
	if docs, t.inputs, err = t.first(); err != nil {
		return Result{}, err
	}
	t.base = flatten(docs)
	again, err := t.render(nil)
	if err != nil {
		return Result{}, err
	}
	second := flatten(again)
	for i, key := range t.base.keys {
		j, ok := second.index[key]
		t.base.fields[i].Random = !ok || second.fields[j].Text != t.base.fields[i].Text
	}
	t.search(t.inputs)
	values := t.from
	t.literals(values)
	for i := range t.base.fields {
		f := &t.base.fields[i]
		for _, in := range values[i] {
			f.From = append(f.From, t.value(in))
		}
	}
	return Result{docs, t.base.fields, t.left > 0}, nil
}

type tracer struct {
	Subject
	base   outcome
	inputs []input
	from   map[int][]input // by index of the field
	left   int             // renderings

	templates map[[2]string][]string // lines, by tree and file
}

// outcome is what was rendered, in a comparable form.
type outcome struct {
	fields []Field
	index  map[string]int // of fields, by object and path
	keys   []string       // of fields
	length map[string]int // of lists, likewise
}

// flatten returns the fields of documents. Objects are known by their place in their file, as names may change.
func flatten(docs []render.Document) outcome {
	o := outcome{index: map[string]int{}, length: map[string]int{}}
	count := map[string]int{}
	for i, d := range docs {
		count[d.File]++
		id := fmt.Sprintf("%s %d ", d.File, count[d.File])
		walk(d.Node, "", func(path string, n *yaml.Node) {
			f := Field{Object: i, Path: path, Text: n.Value}
			if n.Line > 0 {
				f.At = lab.Position{File: d.File, Line: n.Line}
			}
			o.index[id+path] = len(o.fields)
			o.fields, o.keys = append(o.fields, f), append(o.keys, id+path)
			for list := range lists(id + path) {
				number, _, _ := strings.Cut((id + path)[len(list)+1:], "]")
				if n, err := strconv.Atoi(number); err == nil {
					o.length[list] = max(o.length[list], n+1)
				}
			}
		})
	}
	return o
}

// walk visits scalars, and lists and mappings without elements.
func walk(n *yaml.Node, path string, visit func(path string, n *yaml.Node)) {
	switch n.Kind {
	case yaml.AliasNode: // its anchor is visited
	case yaml.MappingNode:
		for key, value := range strict.Pairs(n) {
			walk(value, join(path, key.Value), visit)
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
			t.from[i] = append(t.from[i], inputs[0])
		}
	}
}

// literals finds the lines of templates that write the fields that no value decides: the line has the text of the field, which changes with it, or is
// where the renderer wrote the field, which is gone without it.
func (t *tracer) literals(decided map[int][]input) {
	t.from = map[int][]input{}
	t.search(t.lines(decided))
	for i := range t.base.fields {
		f := &t.base.fields[i]
		if len(decided[i]) > 0 || f.Random {
			continue
		}
		at := slices.IndexFunc(t.from[i], func(in input) bool { return in.Text == firstLine(f.Text) })
		if at >= 0 {
			f.At = t.from[i][at].Position
			continue
		}
		if !t.writes(f.At, i) {
			f.At = lab.Position{}
		}
	}
}

// writes reports whether a field is gone, or another, without the line.
func (t *tracer) writes(at lab.Position, field int) bool {
	for of, lines := range t.templates {
		if t.Name(of[0], of[1]) != at.File || at.Line < 1 || at.Line > len(lines) || t.left <= 0 {
			continue
		}
		t.left--
		docs, err := t.render([]input{{tree: of[0], file: of[1], line: at.Line, drop: true}})
		if err != nil {
			return false
		}
		after := flatten(docs)
		j, still := after.index[t.base.keys[field]]
		return !still || after.fields[j].Text != t.base.fields[field].Text
	}
	return false
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// value returns an input with the values that it overrides.
func (t *tracer) value(in input) Value {
	v, layer := in.Value, len(t.Layers)
	at := in.Path
	if in.option != nil {
		var isValue bool
		if at, isValue = strings.CutPrefix(in.Path, t.ValuesAt); !isValue || t.ValuesAt == "" {
			return v
		}
	} else if layer = slices.Index(t.Layers, render.Layer{Ref: in.tree, File: in.file}); layer < 0 {
		return v
	}
	for _, l := range slices.Backward(t.Layers[:layer]) {
		for _, other := range t.inputs {
			if other.tree == l.Ref && other.file == l.File && other.option == nil && other.Path == at {
				v.Over = append(v.Over, other.Value)
			}
		}
	}
	return v
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
			t.from[i] = append(t.from[i], in)
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
	for i, key := range t.base.keys {
		j, still := after.index[key]
		if t.base.fields[i].Random || still && after.fields[j].Text == t.base.fields[i].Text || t.base.moved(after, key, t.base.fields[i].Text) {
			continue
		}
		_, filled := after.index[key+"."+filling]
		_, longer := after.index[key+"[0]"]
		if still || filled || longer {
			changed = append(changed, i)
		} else {
			changed = append(changed, none)
		}
	}
	if len(after.index) > len(t.base.index) {
		changed = append(changed, none)
	}
	slices.Sort(changed)
	return slices.Compact(changed), nil
}

// moved reports whether a field is in another element of a list that has become shorter or longer.
func (o outcome) moved(after outcome, key, text string) bool {
	for list := range lists(key) {
		if o.length[list] == after.length[list] {
			continue
		}
		_, rest, _ := strings.Cut(key[len(list):], "]")
		for n := range after.length[list] {
			if j, ok := after.index[fmt.Sprintf("%s[%d]%s", list, n, rest)]; ok && after.fields[j].Text == text {
				return true
			}
		}
	}
	return false
}

// lists returns the lists that a key leads through: "spec.ports" of "spec.ports[0].name".
func lists(key string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range len(key) - 1 {
			if key[i] == '[' && key[i+1] >= '0' && key[i+1] <= '9' && !yield(key[:i]) {
				return
			}
		}
	}
}
