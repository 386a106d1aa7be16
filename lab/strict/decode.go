package strict

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/finding"
)

// Reader decodes one document into Go types. Unknown keys and wrong types are problems with positions, after which it
// continues.
//
// Field tags are yaml:"key" (or ",inline"), need:"true" for a required key, enum:"a,b" unless the type is an Enum, max:"10m"
// for a duration or max:"100" for a number, and doc:"..." for the schema.
type Reader struct {
	File     string
	Problems lab.Problems
	At       map[string]lab.Position // by path
	Unfilled bool                    // a duration may be a ${variable}, decoded as 0
}

// NewReader returns a reader for a file.
func NewReader(file string) *Reader { return &Reader{File: file, At: map[string]lab.Position{}} }

// Custom is a type that decodes itself.
type Custom interface {
	ReadYAML(r *Reader, n *yaml.Node, path string)
}

// Enum is a text type with a few valid values, also as the key of a map.
type Enum interface {
	Words() []string
}

// words returns the valid values of an Enum, or of a list of them.
func words(t reflect.Type) []string {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if e, ok := reflect.Zero(t).Interface().(Enum); ok {
		return e.Words()
	}
	return nil
}

// Fail adds a problem at a node.
func (r *Reader) Fail(n *yaml.Node, message, cure string) {
	r.Problems = append(r.Problems, lab.Problem{Code: finding.InvalidField, Position: Position(r.File, n), Message: message, Cure: cure})
}

// FailAt adds a problem at Position(path).
func (r *Reader) FailAt(path, message, cure string) {
	r.Problems = append(r.Problems, lab.Problem{Code: finding.InvalidField, Position: r.Position(path), Message: message, Cure: cure})
}

// Position returns the position of the value at a path, or of its nearest existing parent.
func (r *Reader) Position(path string) lab.Position {
	for {
		if at, ok := r.At[path]; ok {
			return at
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return lab.Position{File: r.File}
		}
		path = path[:i]
	}
}

// Decode decodes n into the value that into points to.
func (r *Reader) Decode(n *yaml.Node, into any, path string) {
	r.value(n, reflect.ValueOf(into).Elem(), field{}, path)
}

type field struct {
	key  string
	need bool
	enum []string
	max  string
	doc  string
}

func fieldOf(f reflect.StructField) (field, bool) {
	key, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	out := field{key: key, need: f.Tag.Get("need") == "true", enum: words(f.Type), max: f.Tag.Get("max"), doc: f.Tag.Get("doc")}
	if e := f.Tag.Get("enum"); e != "" {
		out.enum = strings.Split(e, ",")
	}
	return out, options == "inline"
}

func (r *Reader) value(n *yaml.Node, to reflect.Value, f field, path string) {
	if IsNull(n) && to.Kind() != reflect.Interface {
		return // a key without a value counts as missing
	}
	r.At[path] = Position(r.File, n)
	if c, ok := to.Addr().Interface().(Custom); ok {
		c.ReadYAML(r, n, path)
		return
	}
	switch to.Kind() {
	case reflect.Pointer:
		v := reflect.New(to.Type().Elem())
		r.value(n, v.Elem(), f, path)
		to.Set(v)
	case reflect.Struct:
		r.mapping(n, to, path)
	case reflect.Map:
		r.table(n, to, f, path)
	case reflect.Slice:
		r.list(n, to, f, path)
	case reflect.Interface:
		v, ok := r.Plain(n, path)
		if ok && v != nil {
			to.Set(reflect.ValueOf(v))
		}
	default:
		r.scalar(n, to, f, path)
	}
}

func (r *Reader) mapping(n *yaml.Node, to reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		r.Wrong(n, path, "a mapping")
		return
	}
	fields := map[string]reflect.Value{}
	about := map[string]field{}
	var known []string
	collect(to, func(f field, v reflect.Value) {
		fields[f.key], about[f.key] = v, f
		known = append(known, f.key)
	})
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		v, ok := fields[key.Value]
		if !ok {
			r.Unknown(key, known)
			continue
		}
		r.value(n.Content[i+1], v, about[key.Value], Join(path, key.Value))
	}
	for _, key := range known {
		if _, there := r.At[Join(path, key)]; about[key].need && !there {
			r.Fail(holder(n, key), Join(path, key)+" is missing", "")
		}
	}
}

// holder returns the key without a value, or else the mapping that lacks it.
func holder(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i]
		}
	}
	return n
}

// collect visits the fields of a struct and of its inlined structs.
func collect(v reflect.Value, visit func(field, reflect.Value)) {
	for i := range v.NumField() {
		f, inline := fieldOf(v.Type().Field(i))
		switch {
		case inline:
			collect(v.Field(i), visit)
		case f.key != "" && f.key != "-":
			visit(f, v.Field(i))
		}
	}
}

// Unknown adds a problem for an unknown key.
func (r *Reader) Unknown(key *yaml.Node, known []string) {
	cure := "known: " + strings.Join(known, ", ")
	if best := Closest(key.Value, known); best != "" {
		cure = fmt.Sprintf("did you mean %q?", best)
	}
	r.Fail(key, fmt.Sprintf("unknown key %q", lab.Brief(key.Value)), cure)
}

func (r *Reader) table(n *yaml.Node, to reflect.Value, f field, path string) {
	if n.Kind != yaml.MappingNode {
		r.Wrong(n, path, "a mapping")
		return
	}
	out := reflect.MakeMap(to.Type())
	known := words(to.Type().Key())
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if known != nil && !slices.Contains(known, key.Value) {
			r.Unknown(key, known)
			continue
		}
		v := reflect.New(to.Type().Elem()).Elem()
		r.value(n.Content[i+1], v, f, Join(path, key.Value))
		out.SetMapIndex(reflect.ValueOf(key.Value).Convert(to.Type().Key()), v)
	}
	to.Set(out)
}

func (r *Reader) list(n *yaml.Node, to reflect.Value, f field, path string) {
	if n.Kind != yaml.SequenceNode {
		r.Wrong(n, path, "a list")
		return
	}
	out := reflect.MakeSlice(to.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		if IsNull(c) && to.Type().Elem().Kind() != reflect.Interface {
			r.Fail(c, at+" is empty", "")
			continue
		}
		r.value(c, out.Index(i), f, at)
	}
	to.Set(out)
}

var spanType = reflect.TypeFor[time.Duration]()

func (r *Reader) scalar(n *yaml.Node, to reflect.Value, f field, path string) {
	switch {
	case n.Kind != yaml.ScalarNode:
		r.Wrong(n, path, wanted(to.Type()))
	case to.Type() == spanType:
		r.span(n, to, f, path)
	case to.Kind() == reflect.String && n.Tag == "!!str":
		to.SetString(n.Value)
		r.word(n, f, path)
	case to.Kind() == reflect.Bool && n.Tag == "!!bool":
		to.SetBool(strings.EqualFold(n.Value, "true"))
	case to.Kind() == reflect.Int && n.Tag == "!!int":
		v, err := strconv.Atoi(n.Value)
		most, _ := strconv.Atoi(f.max)
		switch {
		case err != nil:
			r.Wrong(n, path, "a whole number")
		case f.max != "" && (v > most || v < 0):
			r.Fail(n, fmt.Sprintf("%s cannot be %d", path, v), "at most "+f.max)
		default:
			to.SetInt(int64(v))
		}
	default:
		r.Wrong(n, path, wanted(to.Type()))
	}
}

func (r *Reader) word(n *yaml.Node, f field, path string) {
	if len(f.enum) == 0 || slices.Contains(f.enum, n.Value) {
		return
	}
	r.Fail(n, fmt.Sprintf("%s cannot be %q", path, lab.Brief(n.Value)), Choose(n.Value, f.enum))
}

// Choose returns the cure for an invalid word: the nearest valid one, or all, "a, b or c".
func Choose(word string, words []string) string {
	if best := Closest(word, words); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	last := len(words) - 1
	if last <= 0 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func (r *Reader) span(n *yaml.Node, to reflect.Value, f field, path string) {
	if r.Unfilled && strings.HasPrefix(n.Value, "${") {
		return
	}
	d, err := time.ParseDuration(n.Value)
	if err != nil {
		r.Wrong(n, path, "a duration such as 30s or 2m")
		return
	}
	most, _ := time.ParseDuration(f.max)
	if d < 0 || f.max != "" && d > most {
		r.Fail(n, fmt.Sprintf("%s cannot be %s", path, lab.Brief(n.Value)), "at most "+f.max)
		return
	}
	to.SetInt(int64(d))
}

func wanted(t reflect.Type) string {
	switch {
	case t == spanType:
		return "a duration such as 30s or 2m"
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Bool:
		return "true or false"
	}
	return "a whole number"
}

// Wrong adds a problem for a node that is not what is wanted.
func (r *Reader) Wrong(n *yaml.Node, path, want string) {
	cure := ""
	if n.Kind == yaml.ScalarNode {
		switch word := strings.ToLower(n.Value); {
		case want == "text":
			cure = "write it in quotes: " + strconv.Quote(lab.Brief(n.Value))
		case want == "true or false" && slices.Contains([]string{"true", "yes", "on"}, word):
			cure = "write true, without quotes"
		case want == "true or false" && slices.Contains([]string{"false", "no", "off"}, word):
			cure = "write false, without quotes"
		}
	}
	if path == "" {
		path = "the document"
	}
	r.Fail(n, fmt.Sprintf("%s must be %s, not %s", path, want, KindOf(n)), cure)
}

// Plain decodes a node to string, bool, int64, float64, nil, []any or map[string]any. A date remains a string.
func (r *Reader) Plain(n *yaml.Node, path string) (any, bool) {
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			v, ok := r.Plain(n.Content[i+1], Join(path, n.Content[i].Value))
			if !ok {
				return nil, false
			}
			out[n.Content[i].Value] = v
		}
		return out, true
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, c := range n.Content {
			v, ok := r.Plain(c, fmt.Sprintf("%s[%d]", path, i))
			if !ok {
				return nil, false
			}
			out[i] = v
		}
		return out, true
	}
	v, err := Scalar(n)
	if err != nil {
		r.Fail(n, path+": "+err.Error(), "")
		return nil, false
	}
	return v, true
}

// Scalar decodes a scalar node.
func Scalar(n *yaml.Node) (any, error) {
	switch n.Tag {
	case "!!null":
		return nil, nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true"), nil
	case "!!int":
		var v int64
		err := n.Decode(&v)
		return v, err
	case "!!float":
		var v float64
		err := n.Decode(&v)
		return v, err
	}
	return n.Value, nil
}

// Join appends a key to a path.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
