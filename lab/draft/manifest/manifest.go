// Package manifest writes the documents of a draft: YAML in a fixed order, whose values have their origins as comments.
package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Mapping is an ordered YAML mapping.
type Mapping struct{ Node yaml.Node }

// Of returns a mapping of keys, each followed by its value.
func Of(pairs ...any) *Mapping {
	m := &Mapping{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m.Add(fmt.Sprint(pairs[i]), pairs[i+1])
	}
	return m
}

// Add appends a key. The value is a node, a mapping or plain data.
func (m *Mapping) Add(key string, value any) {
	m.Node.Kind = yaml.MappingNode
	var v yaml.Node
	switch value := value.(type) {
	case *yaml.Node:
		v = *value
	case *Mapping:
		v = value.Node
	default:
		if err := v.Encode(value); err != nil {
			panic(err) // plain values
		}
	}
	m.Node.Content = append(m.Node.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, &v)
}

// Comment sets the line comment of the last value.
func (m *Mapping) Comment(text string) {
	m.Node.Content[len(m.Node.Content)-1].LineComment = text
}

// addList appends a list, unless it is empty.
func (m *Mapping) addList(key string, list []*yaml.Node) {
	if len(list) > 0 {
		m.Add(key, &yaml.Node{Kind: yaml.SequenceNode, Content: list})
	}
}

// addTexts appends a mapping of texts, unless it is empty. comment may be nil.
func (m *Mapping) addTexts(key string, values map[string]string, comment func(string) string) {
	if len(values) == 0 {
		return
	}
	inner := Mapping{}
	for _, k := range slices.Sorted(maps.Keys(values)) {
		inner.Add(k, values[k])
		if comment != nil {
			inner.Comment(comment(k))
		}
	}
	m.Add(key, &inner)
}

// Object returns a Kubernetes object with further fields, unless they are empty.
func Object(apiVersion, kind string, meta *Mapping, fields ...any) string {
	m := Of("apiVersion", apiVersion, "kind", kind, "metadata", meta)
	for i := 0; i+1 < len(fields); i += 2 {
		if of, is := fields[i+1].(*Mapping); fields[i+1] != "" && (!is || len(of.Node.Content) > 0) {
			m.Add(fmt.Sprint(fields[i]), fields[i+1])
		}
	}
	return Encode(&m.Node)
}

// Encode returns a node of the draft as text.
func Encode(n *yaml.Node) string {
	var b strings.Builder
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		panic(err) // our own nodes
	}
	return b.String()
}
