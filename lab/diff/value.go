package diff

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Kind is what happens to an object or a field.
type Kind string

// The kinds. The last one is of a list: its elements are in another order.
const (
	Added     Kind = "added"
	Removed   Kind = "removed"
	Changed   Kind = "changed"
	Moved     Kind = "moved"   // of an object: another application has it
	Renamed   Kind = "renamed" // of an object
	Reordered Kind = "reordered"
)

// Step is a part of a path: a key of a mapping, an element of a list by a key of its own, or by index if both are empty.
type Step struct {
	Key   string // of a mapping
	By    string // "name" in containers[name=web]
	Value any    // of By
	Index int
}

// Path is the place of a field in an object.
type Path []Step

// String returns the path in the syntax of package fieldpath.
func (p Path) String() string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case s.By != "":
			fmt.Fprintf(&b, "[%s=%v]", s.By, s.Value)
		case s.Key == "":
			fmt.Fprintf(&b, "[%d]", s.Index)
		case strings.ContainsAny(s.Key, ".[]\" \n"):
			b.WriteString("[" + strconv.Quote(s.Key) + "]")
		case i == 0:
			b.WriteString(s.Key)
		default:
			b.WriteString("." + s.Key)
		}
	}
	return b.String()
}

func (p Path) with(s Step) Path { return append(slices.Clone(p), s) }

// Field is a difference within an object. Values are those of JSON.
type Field struct {
	Path          Path
	Kind          Kind
	Before, After any    // nil where there is none; of Reordered, the keys of the elements
	By            string // of Reordered, the field that is the key
	Secret        bool   // the values are masked
}

// Fields returns the differences of two JSON values, in the order of Apply. Lists are compared by the keys by which Kubernetes merges them, if the values are of a kind
// of its own, those of other kinds by name if every element has another, and all others by index. Lists of scalars are compared as a whole.
func Fields(before, after any) []Field { return differ{}.value(nil, before, after, schemaOf(before)) }

// differ compares objects of two clusters, or of one if both names are the same. Texts that differ only by the names of their clusters are the same.
type differ struct {
	before, after string
	hashes        bool // also those that differ by the hash that kustomize adds to names
}

func (d differ) same(a, b any) bool {
	if d.before == d.after {
		return reflect.DeepEqual(a, b)
	}
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		return ok && d.sameText(a, b)
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, v := range a {
			if w, ok := b[key]; !ok || !d.same(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, d.same)
	}
	return reflect.DeepEqual(a, b)
}

func (d differ) sameText(a, b string) bool {
	if a == b || d.before == d.after {
		return a == b
	}
	a, b = named(a, d.before), named(b, d.after)
	return a == b || d.hashes && suffix.MatchString(a) && suffix.ReplaceAllString(a, "") == suffix.ReplaceAllString(b, "")
}

// Cluster stands for the name of a cluster in what several have in common.
const Cluster = "{cluster}"

// named replaces the name of a cluster in a text, where it is a word.
func named(text, cluster string) string {
	if cluster == "" || !strings.Contains(text, cluster) {
		return text
	}
	letter := func(i int) bool {
		return i >= 0 && i < len(text) && (text[i] >= 'a' && text[i] <= 'z' || text[i] >= 'A' && text[i] <= 'Z' || text[i] >= '0' && text[i] <= '9')
	}
	var b strings.Builder
	done := 0
	for at := 0; at+len(cluster) <= len(text); {
		i := strings.Index(text[at:], cluster)
		if i < 0 {
			break
		}
		i += at
		if at = i + len(cluster); letter(i-1) || letter(at) {
			at = i + 1
			continue
		}
		b.WriteString(text[done:i] + Cluster)
		done = at
	}
	return b.String() + text[done:]
}

func (d differ) value(at Path, a, b any, schema strategicpatch.LookupPatchMeta) []Field {
	if d.same(a, b) {
		return nil
	}
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			return d.mapping(at, x, y, schema)
		}
	case []any:
		y, ok := b.([]any)
		if !ok {
			break
		}
		if by := listKey(at, x, y, schema); by != "" {
			return d.keyed(at, by, x, y, elements(at, schema))
		}
		if !slices.ContainsFunc(x, isScalar) && !slices.ContainsFunc(y, isScalar) {
			return d.indexed(at, x, y, elements(at, schema))
		}
	}
	return []Field{{Path: at, Kind: Changed, Before: a, After: b}}
}

func (d differ) mapping(at Path, a, b map[string]any, schema strategicpatch.LookupPatchMeta) (fields []Field) {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		x, had := a[key]
		y, has := b[key]
		path := at.with(Step{Key: key})
		switch {
		case !had:
			fields = append(fields, Field{Path: path, Kind: Added, After: y})
		case !has:
			fields = append(fields, Field{Path: path, Kind: Removed, Before: x})
		default:
			fields = append(fields, d.value(path, x, y, below(schema, key, x))...)
		}
	}
	return fields
}

func (d differ) indexed(at Path, a, b []any, schema strategicpatch.LookupPatchMeta) (fields []Field) {
	for i := range min(len(a), len(b)) {
		fields = append(fields, d.value(at.with(Step{Index: i}), a[i], b[i], schema)...)
	}
	for i := len(a) - 1; i >= len(b); i-- {
		fields = append(fields, Field{Path: at.with(Step{Index: i}), Kind: Removed, Before: a[i]})
	}
	for i := len(a); i < len(b); i++ {
		fields = append(fields, Field{Path: at.with(Step{Index: i}), Kind: Added, After: b[i]})
	}
	return fields
}

func (d differ) keyed(at Path, by string, a, b []any, schema strategicpatch.LookupPatchMeta) (fields []Field) {
	step := func(v any) Step { return Step{By: by, Value: keyOf(v, by)} }
	old, now := byKey(a, by), byKey(b, by)
	var order, want []any // of Apply without reordering, and of b
	for _, x := range a {
		s := step(x)
		y, stays := now[s.Value]
		if !stays {
			fields = append(fields, Field{Path: at.with(s), Kind: Removed, Before: x})
			continue
		}
		order = append(order, s.Value)
		fields = append(fields, d.value(at.with(s), x, y, schema)...)
	}
	for _, y := range b {
		s := step(y)
		want = append(want, s.Value)
		if _, known := old[s.Value]; !known {
			order = append(order, s.Value)
			fields = append(fields, Field{Path: at.with(s), Kind: Added, After: y})
		}
	}
	if !slices.Equal(order, want) {
		fields = append(fields, Field{Path: at, Kind: Reordered, Before: order, After: want, By: by})
	}
	return fields
}

func keyOf(v any, by string) any {
	m, _ := v.(map[string]any)
	return m[by]
}

func byKey(list []any, by string) map[any]any {
	of := make(map[any]any, len(list))
	for _, v := range list {
		of[keyOf(v, by)] = v
	}
	return of
}

func isScalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// listKey returns the key that identifies the elements of lists, or "".
func listKey(at Path, a, b []any, schema strategicpatch.LookupPatchMeta) string {
	by := "name"
	if schema != nil && len(at) > 0 {
		_, meta, err := schema.LookupPatchMetadataForSlice(at[len(at)-1].Key)
		if err != nil {
			return ""
		}
		by = meta.GetPatchMergeKey()
	}
	if by == "" || !unique(a, by) || !unique(b, by) {
		return ""
	}
	return by
}

func unique(list []any, by string) bool {
	seen := map[any]bool{}
	for _, v := range list {
		key := keyOf(v, by)
		if key == nil || !isScalar(key) || seen[key] {
			return false
		}
		seen[key] = true
	}
	return true
}

// Apply returns a value with changes.
func Apply(v any, fields []Field) (any, error) {
	for _, f := range fields {
		var err error
		if v, err = apply(v, f.Path, f); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	return v, nil
}

func apply(v any, path Path, f Field) (any, error) {
	if len(path) == 0 {
		if f.Kind == Reordered {
			return reorder(v, f)
		}
		return f.After, nil
	}
	s, last := path[0], len(path) == 1
	if s.Key != "" || s.By == "" && isMapping(v) {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("no mapping with %q", s.Key)
		}
		m = maps.Clone(m)
		if last && f.Kind == Removed {
			delete(m, s.Key)
			return m, nil
		}
		below, err := apply(m[s.Key], path[1:], f)
		m[s.Key] = below
		return m, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("no list")
	}
	list = slices.Clone(list)
	i := s.Index
	if s.By != "" {
		if i = slices.IndexFunc(list, func(v any) bool { return keyOf(v, s.By) == s.Value }); i < 0 {
			i = len(list)
		}
	}
	switch {
	case last && f.Kind == Added && i == len(list):
		return append(list, f.After), nil
	case i >= len(list):
		return nil, fmt.Errorf("no element")
	case last && f.Kind == Removed:
		return slices.Delete(list, i, i+1), nil
	}
	below, err := apply(list[i], path[1:], f)
	list[i] = below
	return list, err
}

func isMapping(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

// reorder sorts the elements of a list by their keys.
func reorder(v any, f Field) (any, error) {
	list, _ := v.([]any)
	keys, _ := f.After.([]any)
	if len(list) != len(keys) {
		return nil, fmt.Errorf("%d elements, want %d", len(list), len(keys))
	}
	sorted := slices.Clone(list)
	for i, key := range keys {
		at := slices.IndexFunc(list, func(v any) bool { return keyOf(v, f.By) == key })
		if at < 0 {
			return nil, fmt.Errorf("no element %v", key)
		}
		sorted[i] = list[at]
	}
	return sorted, nil
}
