package strict

import (
	"strings"

	"go.yaml.in/yaml/v3"
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
