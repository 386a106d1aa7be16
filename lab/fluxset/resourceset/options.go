package resourceset

import (
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"homelab/lab/render"
	"homelab/lab/strict"
)

// Keys of options.
const (
	ofProviders   = "providers"
	ownInputs     = "inputs"
	defaultValues = "defaultValues"
)

// ofSpec are the fields of a set's spec that it is expanded from.
var ofSpec = []string{ownInputs, "resources", "steps"}

// Options returns what a set is expanded from: inputs and objects of its spec, and under "providers" the inputs of others, by name.
func (s Set) Options() map[string]any {
	others := map[string]any{}
	for _, p := range s.Providers {
		if n := strict.Get(p.Node, "spec", defaultValues); n != nil && strict.Text(p.Node, "metadata", "namespace") == s.namespace() {
			others[strict.Text(p.Node, "metadata", "name")] = map[string]any{"spec": map[string]any{defaultValues: plain(n)}}
		}
	}
	spec := map[string]any{}
	for _, field := range ofSpec {
		if n := strict.Get(s.Node, "spec", field); n != nil {
			spec[field] = plain(n)
		}
	}
	return map[string]any{"spec": spec, ofProviders: others}
}

// Of returns the object that has an option, and its path there.
func (s Set) Of(path []string) (render.Document, []string) {
	if len(path) < 2 || path[0] != ofProviders {
		return s.Document, path
	}
	i := slices.IndexFunc(s.Providers, func(p render.Document) bool {
		return strict.Text(p.Node, "metadata", "namespace") == s.namespace() && strict.Text(p.Node, "metadata", "name") == path[1]
	})
	if i < 0 {
		return s.Document, nil
	}
	return s.Providers[i], path[2:]
}

// plain returns a value as JSON decodes it, or nil.
func plain(n *yaml.Node) (v any) {
	if n == nil {
		return nil
	}
	if text, err := strict.JSON(n); err != nil || utiljson.Unmarshal(text, &v) != nil {
		return nil
	}
	return v
}

// With returns the set with other options.
func (s Set) With(options map[string]any) Set {
	s.Node = replaced(s.Node, options, ofSpec...)
	others, _ := options[ofProviders].(map[string]any)
	s.Providers = slices.Clone(s.Providers)
	for i, p := range s.Providers {
		if of, _ := others[strict.Text(p.Node, "metadata", "name")].(map[string]any); strict.Text(p.Node, "metadata", "namespace") == s.namespace() {
			s.Providers[i].Node = replaced(p.Node, of, defaultValues)
		}
	}
	return s
}

// replaced returns an object with other values of fields of its spec.
func replaced(n *yaml.Node, options map[string]any, fields ...string) *yaml.Node {
	of, _ := options["spec"].(map[string]any)
	for _, field := range fields {
		value := new(yaml.Node)
		if of[field] == nil || reflect.DeepEqual(of[field], plain(strict.Get(n, "spec", field))) || value.Encode(of[field]) != nil {
			continue
		}
		n = strict.Copy(n)
		changed := strict.Copy(strict.Get(n, "spec"))
		strict.Set(changed, field, value)
		strict.Set(n, "spec", changed)
	}
	return n
}
