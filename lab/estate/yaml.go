package estate

import (
	"go.yaml.in/yaml/v3"

	"homelab/lab/strict"
)

// get returns the value at a path of keys (string) and indexes (int), or nil.
func get(n *yaml.Node, path ...any) *yaml.Node {
	for _, step := range path {
		if n == nil {
			return nil
		}
		var next *yaml.Node
		switch step := step.(type) {
		case string:
			if n.Kind == yaml.MappingNode {
				for i := 0; i+1 < len(n.Content); i += 2 {
					if n.Content[i].Value == step {
						next = n.Content[i+1]
					}
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

// text returns the scalar at a path, or "".
func text(n *yaml.Node, path ...any) string {
	if n = get(n, path...); n == nil || n.Kind != yaml.ScalarNode || strict.IsNull(n) {
		return ""
	}
	return n.Value
}
