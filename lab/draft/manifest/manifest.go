// Package manifest writes the documents of a draft: YAML in a fixed order, whose values have their origins as comments.
package manifest

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Mapping is an ordered YAML mapping.
type Mapping struct{ Node yaml.Node }

// Of returns a mapping with one key.
func Of(key string, value any) *Mapping {
	m := &Mapping{}
	m.Add(key, value)
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

// Object returns a Kubernetes object, without an empty spec.
func Object(apiVersion, kind string, meta, spec Mapping) string {
	m := Mapping{}
	m.Add("apiVersion", apiVersion)
	m.Add("kind", kind)
	m.Add("metadata", &meta)
	if len(spec.Node.Content) > 0 {
		m.Add("spec", &spec)
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
