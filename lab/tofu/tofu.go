// Package tofu reads what Terraform and OpenTofu know of an infrastructure: a state (version 4), the JSON of `output -json`, and that of `show -json` of a state or a plan.
// Nothing is run. Sources: https://opentofu.org/docs/internals/json-format/ and states written by OpenTofu.
package tofu

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kind is the kind of a file.
type Kind string

// The kinds of files.
const (
	State   Kind = "state"
	Outputs Kind = "outputs"
	Shown   Kind = "state shown as JSON"
	Plan    Kind = "plan shown as JSON"
)

// File is what a file says.
type File struct {
	Kind    Kind
	Outputs []Output // by name
	Secrets []Secret // by address
}

// Output is an output of the root module.
type Output struct {
	Name      string
	Value     any // as decoded by encoding/json with json.Number; nil if it is sensitive or not known yet
	Sensitive bool
	Unknown   bool // until the plan is applied
}

// Secret is a Kubernetes Secret that a module manages. Its data is not read.
type Secret struct {
	Address     string // module.gitops_bridge_bootstrap.kubernetes_secret_v1.cluster[0]
	Labels      map[string]string
	Annotations map[string]string
	Sensitive   []string // keys of labels and annotations that are left out
}

// Read reads a file.
func Read(data []byte) (File, error) {
	var doc map[string]json.RawMessage
	if err := decode(data, &doc); err != nil {
		return File{}, err
	}
	f, err := read(doc)
	if err != nil {
		return File{}, err
	}
	slices.SortFunc(f.Outputs, func(a, b Output) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(f.Secrets, func(a, b Secret) int { return strings.Compare(a.Address, b.Address) })
	return f, nil
}

func read(doc map[string]json.RawMessage) (File, error) {
	switch {
	case doc["planned_values"] != nil:
		f := File{Kind: Plan}
		return f, f.shown(doc["planned_values"])
	case doc["format_version"] != nil:
		f := File{Kind: Shown}
		return f, f.shown(doc["values"])
	case doc["encrypted_data"] != nil:
		return File{}, errors.New("the state is encrypted: tofu output -json prints its outputs")
	case doc["version"] != nil && doc["resources"] != nil:
		return state(doc)
	}
	f := File{Kind: Outputs}
	return f, f.outputs(doc, nil)
}

// state reads a state file.
func state(doc map[string]json.RawMessage) (File, error) {
	f := File{Kind: State}
	var version int
	if err := decode(doc["version"], &version); err != nil || version != 4 {
		return f, fmt.Errorf("a state of version %s: only version 4, of Terraform 0.12 and later, can be read", doc["version"])
	}
	var outputs map[string]json.RawMessage
	if err := decode(doc["outputs"], &outputs); err != nil {
		return f, fmt.Errorf("outputs: %w", err)
	}
	if err := f.outputs(outputs, nil); err != nil {
		return f, err
	}
	var resources []struct {
		Module, Mode, Type, Name string
		Instances                []struct {
			Index      any `json:"index_key"`
			Attributes attributes
			Sensitive  [][]pathStep `json:"sensitive_attributes"`
		}
	}
	if err := decode(doc["resources"], &resources); err != nil {
		return f, fmt.Errorf("resources: %w", err)
	}
	for _, r := range resources {
		for _, i := range r.Instances {
			if r.Mode == "managed" {
				f.secret(address(r.Module, r.Type, r.Name, i.Index), r.Type, i.Attributes, hides(i.Sensitive))
			}
		}
	}
	return f, nil
}

func address(module, kind, name string, index any) string {
	text := strings.TrimPrefix(module+"."+kind+"."+name, ".")
	switch index := index.(type) {
	case nil:
		return text
	case string:
		return fmt.Sprintf("%s[%q]", text, index)
	default:
		return fmt.Sprintf("%s[%v]", text, index)
	}
}

// attributes are those of a resource of type kubernetes_secret.
type attributes struct {
	Metadata []struct{ Labels, Annotations map[string]string }
}

// UnmarshalJSON ignores the attributes of other types, whose metadata may have any shape.
func (a *attributes) UnmarshalJSON(data []byte) error {
	type plain attributes
	var read plain
	if decode(data, &read) == nil {
		*a = attributes(read)
	}
	return nil
}

// pathStep is a step of a path to a sensitive attribute.
type pathStep struct{ Value json.RawMessage }

// key returns the attribute or the key of a mapping; "" for an index of a list.
func (s pathStep) key() string {
	var key string
	var index struct{ Value json.RawMessage }
	if json.Unmarshal(s.Value, &key) != nil && json.Unmarshal(s.Value, &index) == nil {
		_ = json.Unmarshal(index.Value, &key) // else it is a number
	}
	return key
}

// hides returns a function that reports whether paths lead to a key of the labels or annotations in metadata[0].
func hides(paths [][]pathStep) func(part, key string) bool {
	return func(part, key string) bool {
		want := []string{"metadata", "", part, key}
		return slices.ContainsFunc(paths, func(path []pathStep) bool {
			for i, s := range path {
				if i >= len(want) || s.key() != want[i] {
					return false
				}
			}
			return true
		})
	}
}

// marked is the same for sensitive_values, in which true stands for all that is below.
func marked(values any) func(part, key string) bool {
	return func(part, key string) bool {
		at := values
		for _, key := range []string{"metadata", "", part, key} {
			switch v := at.(type) {
			case map[string]any:
				at = v[key]
			case []any:
				if len(v) == 0 {
					return false
				}
				at = v[0]
			default:
				return at == true
			}
		}
		return at == true
	}
}

func (f *File) secret(address, kind string, a attributes, hidden func(part, key string) bool) {
	if (kind != "kubernetes_secret" && kind != "kubernetes_secret_v1") || len(a.Metadata) != 1 {
		return
	}
	s := Secret{Address: address, Labels: a.Metadata[0].Labels, Annotations: a.Metadata[0].Annotations}
	for part, values := range map[string]map[string]string{"labels": s.Labels, "annotations": s.Annotations} {
		for key := range values {
			if hidden(part, key) {
				s.Sensitive = append(s.Sensitive, key)
				delete(values, key)
			}
		}
	}
	slices.Sort(s.Sensitive)
	f.Secrets = append(f.Secrets, s)
}

// module is a module of the JSON output.
type module struct {
	Resources []struct {
		Address, Mode, Type string
		Values              attributes
		Sensitive           any `json:"sensitive_values"`
	}
	Children []module `json:"child_modules"`
}

// shown reads the values of `show -json`.
func (f *File) shown(data json.RawMessage) error {
	if data == nil {
		return nil // an empty state
	}
	var values struct {
		Outputs map[string]json.RawMessage
		Root    module `json:"root_module"`
	}
	if err := decode(data, &values); err != nil {
		return err
	}
	for modules := []module{values.Root}; len(modules) > 0; modules = modules[1:] {
		modules = append(modules, modules[0].Children...)
		for _, r := range modules[0].Resources {
			if r.Mode == "managed" {
				f.secret(r.Address, r.Type, r.Values, marked(r.Sensitive))
			}
		}
	}
	return f.outputs(values.Outputs, f.planned)
}

// planned reports that a plan does not know an output's value yet.
func (f *File) planned(raw json.RawMessage) bool { return f.Kind == Plan && raw == nil }

func (f *File) outputs(all map[string]json.RawMessage, unknown func(json.RawMessage) bool) error {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var o struct {
			Sensitive *bool
			Value     json.RawMessage
			Type      json.RawMessage
		}
		if err := decode(all[name], &o); err != nil || o.Value == nil && o.Type == nil && o.Sensitive == nil {
			return fmt.Errorf("%s is not an output, which has a value: give a state, or what output -json or show -json prints", name)
		}
		out := Output{Name: name, Sensitive: o.Sensitive != nil && *o.Sensitive, Unknown: unknown != nil && unknown(o.Value)}
		if !out.Sensitive && o.Value != nil {
			if err := decode(o.Value, &out.Value); err != nil {
				return fmt.Errorf("output %s: %w", name, err)
			}
		}
		f.Outputs = append(f.Outputs, out)
	}
	return nil
}

// decode decodes JSON and keeps numbers as written: account ids have leading zeros only as text, and 12 digits.
func decode(data []byte, into any) error {
	if len(data) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(into)
}
