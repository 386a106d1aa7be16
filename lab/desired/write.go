package desired

import (
	"bytes"
	"encoding/json"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab/strict"
)

// Masked stands for a value of a Secret.
const Masked = "***"

// Mask returns the object with the values of a Secret masked.
func (o Object) Mask() Object {
	if strict.Text(o.Node, "kind") != "Secret" || strict.Text(o.Node, "apiVersion") != "v1" {
		return o
	}
	n := strict.Copy(o.Node)
	for _, field := range []string{"data", "stringData"} {
		old := strict.Get(o.Node, field)
		if old == nil || old.Kind != yaml.MappingNode {
			continue
		}
		masked := strict.Copy(old)
		for i := 1; i < len(masked.Content); i += 2 {
			masked.Content[i] = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: Masked}
		}
		strict.Set(n, field, masked)
	}
	o.Node = n
	return o
}

// YAML returns the object as a document that ends with a newline.
func (o Object) YAML() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	n := o.Node
	if n.Style&yaml.FlowStyle != 0 { // JSON, of which Flux's substitution makes YAML
		n = unstyled(n)
	}
	if err := enc.Encode(n); err != nil {
		return nil, err
	}
	return b.Bytes(), enc.Close()
}

// unstyled returns a copy of a node without its style. Texts that YAML 1.1 reads as something else stay quoted.
func unstyled(n *yaml.Node) *yaml.Node {
	of := *n
	of.Content = nil
	var read any
	if plain := sigsyaml.Unmarshal([]byte(n.Value), &read) == nil && read == any(n.Value); n.Kind != yaml.ScalarNode || plain || strings.Contains(n.Value, "\n") {
		of.Style = 0
	}
	for _, c := range n.Content {
		of.Content = append(of.Content, unstyled(c))
	}
	return &of
}

// JSON returns the object as both engines read YAML: `yes` is a boolean.
func (o Object) JSON() (json.RawMessage, error) { return strict.JSON(o.Node) }
