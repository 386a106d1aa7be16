package verb

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab/fieldpath"
	"homelab/lab/scenario"
	"homelab/lab/strict"
)

// condition is an expected value: a literal, or an operator and its operand.
type condition struct {
	op   string
	want any
	re   *regexp.Regexp
}

func operators() []string { return []string{"is", "not", "matches", "exists", "atLeast", "atMost"} }

const maxPattern = 512 // characters; matching takes linear time for any pattern

// ReadYAML reads a condition.
func (c *condition) ReadYAML(r *strict.Reader, n *yaml.Node, path string) {
	value := n
	c.op = "is"
	if n.Kind == yaml.MappingNode {
		if len(n.Content) != 2 || !slices.Contains(operators(), n.Content[0].Value) {
			r.Fail(n, path+" must be a value, or an operator with a value", "one of "+strings.Join(operators(), ", ")+"; to compare a whole mapping, write is: {...}")
			return
		}
		c.op, value = n.Content[0].Value, n.Content[1]
	}
	want, ok := r.Plain(value, path)
	if !ok {
		return
	}
	c.want = want
	switch _, isNumber := number(want); c.op {
	case "matches":
		c.pattern(r, value, path)
	case "exists":
		if _, isBool := want.(bool); !isBool {
			r.Fail(value, path+": exists needs true or false", "")
		}
	case "atLeast", "atMost":
		if !isNumber && !placeholder(want) {
			r.Fail(value, path+": "+c.op+" needs a number", "")
		}
	}
}

var reference = regexp.MustCompile(`\$\{[^}]*\}`)

func (c *condition) pattern(r *strict.Reader, n *yaml.Node, path string) {
	s, ok := c.want.(string)
	if !ok || len(s) > maxPattern {
		r.Fail(n, path+": matches needs a pattern", fmt.Sprintf("at most %d characters", maxPattern))
		return
	}
	// Variables are unknown yet: check with a placeholder.
	re, err := regexp.Compile(reference.ReplaceAllString(s, "x"))
	if err != nil {
		r.Fail(n, path+": "+err.Error(), "https://pkg.go.dev/regexp/syntax")
		return
	}
	if !strings.Contains(s, "${") {
		c.re = re
	}
}

func placeholder(v any) bool {
	s, ok := v.(string)
	return ok && strings.Contains(s, "${")
}

// JSONSchema returns the schema of a condition.
func (c *condition) JSONSchema() map[string]any {
	return map[string]any{"anyOf": []any{
		map[string]any{"type": []string{"string", "number", "boolean", "null", "array"}},
		map[string]any{
			"type": "object", "additionalProperties": false, "minProperties": 1, "maxProperties": 1,
			"properties": map[string]any{
				"is": map[string]any{}, "not": map[string]any{}, "matches": map[string]any{"type": "string"}, "exists": map[string]any{"type": "boolean"},
				"atLeast": map[string]any{"type": []string{"number", "string"}}, "atMost": map[string]any{"type": []string{"number", "string"}},
			},
		},
	}}
}

func (c condition) holds(got any, there bool) bool {
	switch c.op {
	case "exists":
		return there == (c.want == true)
	case "not":
		return !there || !equal(got, c.want)
	}
	if !there {
		return c.want == nil && (c.op == "is" || c.op == "") // YAML null is decoded as absent
	}
	switch c.op {
	case "length":
		list, ok := got.([]any)
		return ok && int64(len(list)) == c.want
	case "matches":
		s, ok := got.(string)
		return ok && c.re != nil && c.re.MatchString(s)
	case "atLeast", "atMost":
		x, okX := number(got)
		y, okY := number(c.want)
		return okX && okY && (c.op == "atLeast" && x >= y || c.op == "atMost" && x <= y)
	}
	return equal(got, c.want)
}

// equal compares numbers by value, regardless of their Go types.
func equal(a, b any) bool {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	return reflect.DeepEqual(a, b)
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// String returns "= 2", "is not 2", "matches x".
func (c condition) String() string {
	switch c.op {
	case "is", "":
		return "= " + scenario.Shown(c.want)
	case "not":
		return "is not " + scenario.Shown(c.want)
	case "length":
		return fmt.Sprintf("has %v elements", c.want)
	case "exists":
		return map[bool]string{true: "is set", false: "is not set"}[c.want == true]
	case "atLeast":
		return "at least " + scenario.Shown(c.want)
	case "atMost":
		return "at most " + scenario.Shown(c.want)
	}
	return c.op + " " + scenario.Shown(c.want)
}

// lookup finds a value in an object and formats it. A path that does not fit the object is an error, not an absent
// value.
func lookup(object map[string]any, path string) (got any, there bool, shown string, err error) {
	at, err := fieldpath.Parse(path)
	if err != nil {
		return nil, false, err.Error(), err
	}
	got, there = at.Get(object)
	if !there {
		return nil, false, path + " is not set", nil
	}
	return got, true, path + " = " + scenario.Shown(got), nil
}
