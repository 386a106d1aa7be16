package chart

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Node types in a manifest's tree, in addition to plain YAML values.
type (
	// inline is a template expression for a scalar: `key: {{ expr }}`.
	inline string
	// block is an expression for a map or a list, always rendered: `key: {{- toYaml (expr) | nindent N }}`.
	block string
	// with is a block that is omitted if empty.
	with string
	// include is a named template, called with arg, that renders the lines of a map.
	include struct{ name, arg string }
	// when is a value that is rendered if the condition holds.
	when struct {
		cond  string
		value any
	}
	// spread is an item of a list that expands to the expression's items.
	spread string
	// fallback is an expression, or a value if that is empty.
	fallback struct {
		expr  string
		value any
	}
)

// emitter writes a tree as a Helm template.
type emitter struct {
	buf bytes.Buffer
	err error
}

func (e *emitter) line(indent int, s string) {
	e.buf.WriteString(strings.Repeat(" ", indent))
	e.buf.WriteString(s)
	e.buf.WriteByte('\n')
}

// first are the fields that come first; the rest is sorted by name.
var first = []string{"apiVersion", "kind", "metadata", "name", "spec"}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for _, k := range first {
		if _, ok := m[k]; ok {
			keys = append(keys, k)
		}
	}
	n := len(keys)
	for k := range m {
		if !slices.Contains(first, k) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys[n:])
	return keys
}

func (e *emitter) mapping(indent int, m map[string]any) {
	for _, k := range sortedKeys(m) {
		e.entry(indent, k, m[k])
	}
}

func (e *emitter) entry(indent int, key string, v any) {
	name := e.scalar(0, key)
	switch v := v.(type) {
	case nil:
	case when:
		e.line(indent, "{{- if "+v.cond+" }}")
		e.entry(indent, key, v.value)
		e.line(indent, "{{- end }}")
	case with:
		e.line(indent, "{{- with "+string(v)+" }}")
		e.line(indent, name+": {{- toYaml . | nindent "+fmt.Sprint(indent+2)+" }}")
		e.line(indent, "{{- end }}")
	case fallback:
		e.line(indent, "{{- with "+v.expr+" }}")
		e.line(indent, name+": {{- toYaml . | nindent "+fmt.Sprint(indent+2)+" }}")
		e.line(indent, "{{- else }}")
		e.entry(indent, key, v.value)
		e.line(indent, "{{- end }}")
	case block:
		e.line(indent, name+": {{- toYaml ("+string(v)+") | nindent "+fmt.Sprint(indent+2)+" }}")
	case include:
		e.line(indent, name+": {{- include "+quote(v.name)+" "+v.arg+" | nindent "+fmt.Sprint(indent+2)+" }}")
	case map[string]any:
		if len(v) == 0 {
			e.line(indent, name+": {}")
			return
		}
		e.line(indent, name+":")
		e.mapping(indent+2, v)
	case []any:
		if len(v) == 0 {
			e.line(indent, name+": []")
			return
		}
		e.line(indent, name+":")
		e.list(indent+2, v)
	default:
		e.line(indent, name+": "+e.scalar(indent, v))
	}
}

func (e *emitter) list(indent int, items []any) {
	for _, v := range items {
		e.item(indent, v)
	}
}

func (e *emitter) item(indent int, v any) {
	switch v := v.(type) {
	case spread:
		e.line(indent, "{{- with "+string(v)+" }}")
		e.line(indent, "{{- toYaml . | nindent "+fmt.Sprint(indent)+" }}")
		e.line(indent, "{{- end }}")
	case when:
		e.line(indent, "{{- if "+v.cond+" }}")
		e.item(indent, v.value)
		e.line(indent, "{{- end }}")
	case map[string]any:
		if len(v) == 0 {
			e.line(indent, "- {}")
			return
		}
		// The map is rendered alone, then the dash replaces the indent of its first line, or gets its own line if that is a condition.
		sub := &emitter{}
		sub.mapping(indent+2, v)
		e.fail(sub.err)
		text := sub.buf.String()
		if strings.HasPrefix(strings.TrimSpace(text), "{{-") {
			e.line(indent, "-")
		} else {
			text = strings.Repeat(" ", indent) + "- " + text[indent+2:]
		}
		e.buf.WriteString(text)
	case []any, block, with, include, fallback:
		e.fail(fmt.Errorf("a nested list contains an unsupported %T", v))
	default:
		e.line(indent, "- "+e.scalar(indent, v))
	}
}

// scalar returns a value on the line of its key; multi-line text continues below, indented by more than indent.
func (e *emitter) scalar(indent int, v any) string {
	if x, ok := v.(inline); ok {
		return "{{ " + string(x) + " }}"
	}
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := enc.Encode(v); err != nil {
		e.fail(err)
	}
	lines := strings.Split(strings.TrimSuffix(buf.String(), "\n"), "\n")
	for i := range lines {
		// Braces in manifests are text, such as Argo CD templates.
		lines[i] = strings.ReplaceAll(lines[i], "{{", `{{ "{{" }}`)
		if i > 0 && lines[i] != "" {
			lines[i] = strings.Repeat(" ", indent) + lines[i]
		}
	}
	return strings.Join(lines, "\n")
}

func (e *emitter) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

func quote(s string) string { return `"` + s + `"` }

// emit renders a manifest as a template, with an optional condition.
func emit(cond string, doc map[string]any) ([]byte, error) {
	e := &emitter{}
	if cond != "" {
		e.line(0, "{{- if "+cond+" }}")
	}
	e.mapping(0, doc)
	if cond != "" {
		e.line(0, "{{- end }}")
	}
	return e.buf.Bytes(), e.err
}
