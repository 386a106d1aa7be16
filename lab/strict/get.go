package strict

import (
	"iter"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// Get returns the node at a path of keys (string) and indexes (int), or nil.
func Get(n *yaml.Node, path ...any) *yaml.Node {
	for _, step := range path {
		if n == nil {
			return nil
		}
		var next *yaml.Node
		switch step := step.(type) {
		case string:
			for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == step {
					next = n.Content[i+1]
				}
			}
		case int:
			if n.Kind == yaml.SequenceNode && step < len(n.Content) {
				next = n.Content[step]
			}
		}
		n = next
	}
	return n
}

// Items returns the objects of a document: itself, or those of a List, nested ones included.
func Items(doc *yaml.Node) []*yaml.Node {
	const deepest = 10
	return items(doc, deepest)
}

func items(doc *yaml.Node, depth int) []*yaml.Node {
	list := Get(doc, "items")
	if list == nil || list.Kind != yaml.SequenceNode || depth == 0 || !strings.HasSuffix(Text(doc, "kind"), "List") {
		return []*yaml.Node{doc}
	}
	var objects []*yaml.Node
	for _, item := range list.Content {
		objects = append(objects, items(item, depth-1)...)
	}
	return objects
}

// Text returns the scalar at a path, or "" if it is missing, null or no scalar.
func Text(n *yaml.Node, path ...any) string {
	if n = Get(n, path...); n == nil || n.Kind != yaml.ScalarNode || IsNull(n) {
		return ""
	}
	return n.Value
}

// List returns the elements of the list at a path, if it is one.
func List(n *yaml.Node, path ...any) []*yaml.Node {
	if n = Get(n, path...); n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// Pairs returns the keys and values of the mapping at a path, if it is one.
func Pairs(n *yaml.Node, path ...any) iter.Seq2[*yaml.Node, *yaml.Node] {
	n = Get(n, path...)
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; n != nil && n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], n.Content[i+1]) {
				return
			}
		}
	}
}

// Texts returns the scalars of the mapping at a path.
func Texts(n *yaml.Node, path ...any) map[string]string {
	texts := map[string]string{}
	for key, value := range Pairs(n, path...) {
		if value.Kind == yaml.ScalarNode {
			texts[key.Value] = value.Value
		}
	}
	return texts
}

// Scalars returns the scalars in a node, each with the keys that lead to it, without the indexes of lists. Keys are scalars of their mapping, too.
func Scalars(n *yaml.Node) iter.Seq2[[]string, *yaml.Node] {
	return func(yield func([]string, *yaml.Node) bool) { scalars(n, nil, yield) }
}

func scalars(n *yaml.Node, keys []string, yield func([]string, *yaml.Node) bool) bool {
	if n.Kind == yaml.ScalarNode && !yield(keys, n) {
		return false
	}
	for i, c := range n.Content {
		below := keys
		if n.Kind == yaml.MappingNode {
			below = append(keys[:len(keys):len(keys)], n.Content[i-i%2].Value)
		}
		if !scalars(c, below, yield) {
			return false
		}
	}
	return true
}

// Copy returns a node that shares its children with another.
func Copy(n *yaml.Node) *yaml.Node {
	c := *n
	c.Content = slices.Clone(n.Content)
	return &c
}

// Set sets or, with nil, removes a key of a mapping.
func Set(mapping *yaml.Node, key string, value *yaml.Node) {
	i := 0
	for i < len(mapping.Content) && mapping.Content[i].Value != key {
		i += 2
	}
	switch {
	case i+1 < len(mapping.Content) && value == nil:
		mapping.Content = slices.Delete(mapping.Content, i, i+2)
	case i+1 < len(mapping.Content):
		mapping.Content[i+1] = value
	case value != nil:
		mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
	}
}

// Into decodes a node into a Go type by its names in JSON. Where that has a text, any scalar is one.
func Into(n *yaml.Node, into any) error {
	text, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	return sigsyaml.Unmarshal(text, into)
}

// Title names an object in messages, "Deployment web".
func Title(n *yaml.Node) string {
	return strings.TrimSpace(Text(n, "kind") + " " + Text(n, "metadata", "name"))
}
