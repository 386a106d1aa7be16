package verb

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab/fieldpath"
	"homelab/lab/strict"
)

// conditions are expected values by their paths in an object. In YAML, a path has a condition, or a fragment of the object: nested keys. Lists of mappings in a fragment are
// compared element by element, and must be of the same length.
type conditions map[string]condition

// ReadYAML reads conditions.
func (c *conditions) ReadYAML(r *strict.Reader, n *yaml.Node, path string) {
	if n.Kind != yaml.MappingNode {
		r.Fail(n, path+" must be a mapping", "path: value")
		return
	}
	*c = conditions{}
	for key, value := range strict.Pairs(n) {
		c.read(r, value, path+"."+key.Value, key.Value, false)
	}
}

func (c *conditions) read(r *strict.Reader, n *yaml.Node, path, at string, nested bool) {
	mappings := func(e *yaml.Node) bool { return e.Kind == yaml.MappingNode }
	r.At[path] = strict.Position(r.File, n)
	is, ok := operation(r, n, path)
	switch {
	case !ok:
	case strict.IsNull(n):
		(*c)[at] = condition{}
	case n.Kind == yaml.MappingNode && len(n.Content) == 0:
		(*c)[at] = condition{op: "exists", want: true}
	case n.Kind == yaml.MappingNode && !is:
		for key, value := range strict.Pairs(n) {
			name := fieldpath.Of(key.Value).String()
			if !strings.HasPrefix(name, "[") {
				name = "." + name
			}
			c.read(r, value, path+"."+key.Value, at+name, true)
		}
	case nested && n.Kind == yaml.SequenceNode && slices.ContainsFunc(n.Content, mappings):
		(*c)[at] = condition{op: "length", want: int64(len(n.Content))}
		for i, e := range n.Content {
			c.read(r, e, fmt.Sprintf("%s[%d]", path, i), fmt.Sprintf("%s[%d]", at, i), true)
		}
	default:
		var one condition
		one.ReadYAML(r, n, path)
		(*c)[at] = one
	}
}

// operation reports whether a mapping is an operator and its operand, and whether it is not a wrong one.
func operation(r *strict.Reader, n *yaml.Node, path string) (is, ok bool) {
	for key := range strict.Pairs(n) {
		best := strict.Closest(key.Value, operators())
		switch {
		case best == "" || !strings.EqualFold(best, key.Value):
			continue
		case best != key.Value:
			r.Fail(key, path+" has the unknown operator "+key.Value, fmt.Sprintf("did you mean %q?", best))
			return false, false
		case len(n.Content) > 2:
			r.Fail(n, path+" has an operator beside other keys", "an operator stands alone; to compare a whole mapping, write is: {...}")
			return false, false
		}
		return true, true
	}
	return false, true
}

// JSONSchema returns the schema of conditions.
func (c *conditions) JSONSchema() map[string]any {
	one := (&condition{}).JSONSchema()
	one["anyOf"] = append(one["anyOf"].([]any), map[string]any{"type": "object", "propertyNames": map[string]any{"not": map[string]any{"enum": operators()}}})
	return map[string]any{"type": "object", "additionalProperties": one}
}
