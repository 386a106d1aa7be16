package fieldpath

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// Node returns the node at the path in a YAML tree, or else the last existing mapping and the missing keys. If found is
// false and missing is empty, the path does not fit the tree.
func (p Path) Node(root *yaml.Node) (n *yaml.Node, missing []string, found bool) {
	n = root
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	for i, s := range p.steps {
		next := s.node(n)
		if next == nil {
			if n.Kind != yaml.MappingNode {
				return n, nil, false
			}
			for _, s := range p.steps[i:] {
				if s.isIndex || s.where != nil {
					return n, nil, false
				}
				missing = append(missing, s.key)
			}
			return n, missing, false
		}
		n = next
	}
	return n, nil, true
}

func (s step) node(n *yaml.Node) *yaml.Node {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content) && s.where == nil && !s.isIndex; i += 2 {
			if n.Content[i].Value == s.key {
				return n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if s.isIndex && s.index < len(n.Content) {
			return n.Content[s.index]
		}
		i := slices.IndexFunc(n.Content, func(e *yaml.Node) bool {
			if s.where == nil {
				return false
			}
			v, _, ok := s.where.Node(e)
			return ok && v.Kind == yaml.ScalarNode && v.Value == s.equals
		})
		if i >= 0 {
			return n.Content[i]
		}
	}
	return nil
}
