package provenance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// input is a value that can be changed: a scalar of a YAML file or of the options, or a whole file of another kind.
type input struct {
	Value
	tree, file string
	scalar     int      // its number in the file or in the option's text, counted as by scalars; whole for a file that is not YAML
	option     []string // path in the options; nil for files
	line       int      // of a template, in which Text is changed; 0 for others
	drop       bool     // without the line
}

const whole = -1

// watched is a tree that records what is read.
type watched struct {
	fs.FS
	read  map[string]bool
	asked func(name string) // may be nil
}

// Watch records the files that are read, and calls asked for each name that is looked up, whether it exists or not.
func Watch(files fs.FS, read map[string]bool, asked func(name string)) fs.FS {
	return watched{files, read, asked}
}

func (w watched) Open(name string) (fs.File, error) {
	if w.asked != nil {
		w.asked(name)
	}
	f, err := w.FS.Open(name)
	if err == nil {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			w.read[name] = true
		}
	}
	return f, err
}

// first renders the subject as it is, and returns its inputs.
func (t *tracer) first() ([]render.Document, []input, error) {
	read, trees := map[string]map[string]bool{}, map[string]fs.FS{}
	t.templates = map[[2]string][]string{}
	docs, err := t.Render(nil, func(tree string, files fs.FS) fs.FS {
		if read[tree] == nil {
			read[tree], trees[tree] = map[string]bool{}, files
		}
		return Watch(files, read[tree], nil)
	})
	if err != nil {
		return nil, nil, err
	}
	var inputs []input
	for _, tree := range slices.Sorted(maps.Keys(read)) {
		for _, file := range slices.Sorted(maps.Keys(read[tree])) {
			inputs = append(inputs, t.inputsOf(tree, file, trees[tree])...)
		}
	}
	leaves(t.Options, nil, func(at []string, v any) {
		if len(at) > 2 && at[1] == "valueFiles" { // which layers there are, not what they say
			return
		}
		in := input{option: slices.Clone(at), Value: Value{Path: strings.Join(at, "."), Text: fmt.Sprint(v)}}
		if positions := t.At(at); len(positions) > 0 {
			in.Position, in.By = positions[0], slices.Compact(positions[1:])
		}
		text, isText := v.(string)
		if !isText {
			inputs = append(inputs, in)
			return
		}
		_ = scalars([]*yaml.Node{{Kind: yaml.ScalarNode, Value: text}}, func(within string, _ int, n *yaml.Node) {
			one := in
			one.Path, one.Text = in.Path+within, n.Value
			inputs = append(inputs, one)
			in.scalar++
		})
	})
	return docs, inputs, nil
}

// inputsOf returns the values of a file. A file that is not YAML is one value, unless it is a template.
func (t *tracer) inputsOf(tree, file string, files fs.FS) []input {
	data, err := fs.ReadFile(files, file)
	if err != nil {
		return nil
	}
	name := t.Name(tree, file)
	if bytes.Contains(data, []byte("{{")) && strings.Contains("/"+file, "/templates/") {
		t.templates[[2]string{tree, file}] = strings.Split(string(data), "\n")
		return nil
	}
	if docs, err := strict.Nodes(data); err == nil && isYAML(file) {
		var list []input
		_ = scalars(docs, func(at string, line int, n *yaml.Node) {
			list = append(list, input{tree: tree, file: file, scalar: len(list), Value: Value{Position: lab.Position{File: name, Line: line}, Path: at, Text: n.Value}})
		})
		return list
	}
	return []input{{tree: tree, file: file, scalar: whole, Value: Value{Position: lab.Position{File: name, Line: 1}}}}
}

// lines returns the lines of templates that have the text of a field that no value decides.
func (t *tracer) lines(decided map[int][]input) []input {
	var list []input
	seen := map[string]bool{}
	for i, f := range t.base.fields {
		if text := firstLine(f.Text); text != "" && len(decided[i]) == 0 && !f.Random {
			seen[text] = true
		}
	}
	for _, of := range slices.SortedFunc(maps.Keys(t.templates), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		for n, line := range t.templates[of] {
			for _, text := range slices.Sorted(maps.Keys(seen)) {
				if strings.Contains(line, text) {
					list = append(list, input{tree: of[0], file: of[1], line: n + 1, Value: Value{Position: lab.Position{File: t.Name(of[0], of[1]), Line: n + 1}, Text: text}})
				}
			}
		}
	}
	return list
}

func isYAML(file string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json", ""}, path.Ext(file))
}

// scalars visits the scalars of documents, and those of YAML that is a text in them, such as a patch. What visit changes in such a text changes it.
func scalars(docs []*yaml.Node, visit func(path string, line int, n *yaml.Node)) error {
	var failed error
	for _, d := range docs {
		walk(d, "", func(at string, n *yaml.Node) {
			inner, err := strict.Nodes([]byte(n.Value))
			if err != nil || n.Kind != yaml.ScalarNode || !strings.Contains(n.Value, "\n") || len(inner) == 0 || inner[0].Kind == yaml.ScalarNode {
				visit(at, n.Line, n)
				return
			}
			first := n.Line
			if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
				first--
			}
			changed := false
			for _, doc := range inner {
				walk(doc, "", func(within string, m *yaml.Node) {
					was := m.Value
					visit(at+" "+within, first+m.Line, m)
					changed = changed || m.Value != was
				})
			}
			if changed {
				text, err := encode(inner)
				failed = errors.Join(failed, err)
				n.Value = string(text)
			}
		})
	}
	return failed
}

func encode(docs []*yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	for _, d := range docs {
		if err := enc.Encode(d); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), enc.Close()
}

// render renders the subject with other values of inputs.
func (t *tracer) render(inputs []input) ([]render.Document, error) {
	options := t.Options
	changes := map[[2]string][]input{} // by tree and file
	for _, in := range inputs {
		at := [2]string{in.tree, in.file}
		if in.option == nil {
			changes[at] = append(changes[at], in)
			continue
		}
		options, _ = changed(options, in.option, in.scalar).(map[string]any)
	}
	var failed error
	docs, err := t.Render(options, func(tree string, files fs.FS) fs.FS {
		of := render.Overlay{FS: files, Files: map[string][]byte{}}
		for at, list := range changes {
			if at[0] != tree {
				continue
			}
			var err error
			of.Files[at[1]], err = t.changed(files, list)
			failed = errors.Join(failed, err)
		}
		return of
	})
	return docs, errors.Join(err, failed)
}

// changed returns a file with other values of its inputs: lines of a template, or scalars.
func (t *tracer) changed(files fs.FS, list []input) ([]byte, error) {
	of := list[0]
	if of.line == 0 {
		var which []int
		for _, in := range list {
			which = append(which, in.scalar)
		}
		data, err := fs.ReadFile(files, of.file)
		if err != nil {
			return nil, err
		}
		return rewritten(data, which)
	}
	lines := slices.Clone(t.templates[[2]string{of.tree, of.file}])
	for _, in := range list {
		line := &lines[in.line-1]
		if *line = strings.ReplaceAll(*line, in.Text, otherText(in.Text)); in.drop {
			*line = ""
		}
	}
	return []byte(strings.Join(lines, "\n")), nil
}

// rewritten returns a file with other values of the scalars with these numbers.
func rewritten(data []byte, which []int) ([]byte, error) {
	if which[0] == whole {
		return append(slices.Clone(data), "\nother\n"...), nil
	}
	docs, err := strict.Nodes(data)
	if err != nil {
		return nil, err
	}
	if err := change(docs, which); err != nil {
		return nil, err
	}
	return encode(docs)
}

// change gives other values to the scalars with these numbers.
func change(docs []*yaml.Node, which []int) error {
	number := 0
	return scalars(docs, func(_ string, _ int, n *yaml.Node) {
		if slices.Contains(which, number) {
			other(n)
		}
		number++
	})
}

var digits = regexp.MustCompile(`[0-9]+`)

// otherText returns another text of the same form: another number of a quantity, a port or a version, else more letters.
func otherText(s string) string {
	if at := digits.FindAllStringIndex(s, -1); len(at) > 0 {
		last := at[len(at)-1]
		if n, err := strconv.Atoi(s[last[0]:last[1]]); err == nil {
			return s[:last[0]] + strconv.Itoa(n+1) + s[last[1]:]
		}
	}
	if strings.HasSuffix(s, "\n") {
		return strings.TrimSuffix(s, "\n") + "x\n"
	}
	return s + "x"
}

// filling stands in what was empty: it is the key in a mapping, and else the value.
const filling = "other"

// other changes a scalar, or a list or mapping without elements.
func other(n *yaml.Node) {
	switch {
	case n.Kind == yaml.MappingNode:
		n.Content = []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: filling}, {Kind: yaml.ScalarNode, Tag: "!!str", Value: "x"}}
		n.Style = 0
	case n.Kind == yaml.SequenceNode:
		n.Content = []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: filling}}
		n.Style = 0
	case n.Tag == "!!bool":
		n.Value = strconv.FormatBool(n.Value != "true")
	case n.Tag == "!!null":
		n.Tag, n.Value = "!!str", filling
	default:
		n.Value = otherText(n.Value)
	}
}

// leaves visits the values of decoded JSON.
func leaves(v any, at []string, visit func(at []string, v any)) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			leaves(v[key], append(at, key), visit)
		}
	case []any:
		for i, item := range v {
			leaves(item, append(at, strconv.Itoa(i)), visit)
		}
	default:
		visit(at, v)
	}
}

// changed returns decoded JSON with another value at a path, or of a scalar in the text there. It shares the rest with the original.
func changed(v any, at []string, scalar int) any {
	switch v := v.(type) {
	case map[string]any:
		if len(at) > 0 {
			v = maps.Clone(v)
			v[at[0]] = changed(v[at[0]], at[1:], scalar)
		}
		return v
	case []any:
		if len(at) > 0 {
			if i, err := strconv.Atoi(at[0]); err == nil && i < len(v) {
				v = slices.Clone(v)
				v[i] = changed(v[i], at[1:], scalar)
			}
		}
		return v
	case bool:
		return !v
	case string:
		n := &yaml.Node{Kind: yaml.ScalarNode, Value: v}
		if err := change([]*yaml.Node{n}, []int{scalar}); err != nil {
			return otherText(v)
		}
		return n.Value
	case int, int64, float64, json.Number:
		text, _ := json.Marshal(v) // a number always encodes
		return json.Number(otherText(string(text)))
	case nil:
		return filling
	}
	return v
}

func join(path, key string) string {
	if strings.ContainsAny(key, ".[]/") {
		return path + `["` + key + `"]`
	}
	return strings.TrimPrefix(path+"."+key, ".")
}
