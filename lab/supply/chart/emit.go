package chart

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The kinds of node that a manifest's tree may hold beside plain YAML values: places where the chart's user has a say.
type (
	// inline is a template expression that stands for a scalar: `key: {{ expr }}`.
	inline string
	// block is an expression that yields a map or a list, always written: `key: {{- toYaml (expr) | nindent N }}`.
	block string
	// with is a block that is written only where the expression is not empty.
	with string
	// include is a named template, called with (expr), that yields the lines of a map.
	include struct{ name, arg string }
	// when is a value that is written only where the condition holds.
	when struct {
		cond  string
		value any
	}
	// spread, as an item of a list, stands for the items that the expression yields.
	spread string
	// fallback is what the expression yields, or the value where that is empty.
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

// first is the order of the fields that a reader looks for first; the rest follows by name.
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
		// The map is written as if it stood alone and its first line then gets the dash: a line of its own for the dash when that line is a condition.
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
		e.fail(fmt.Errorf("a list within a list holds %T, which the emitter does not know", v))
	default:
		e.line(indent, "- "+e.scalar(indent, v))
	}
}

// scalar is a value on the line of its key; a text of several lines goes on below, further in than indent.
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
		// What the manifest writes in braces is text (an Argo CD template, say), not for Helm to run.
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

// emit writes one manifest as a template, within a condition where there is one.
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
