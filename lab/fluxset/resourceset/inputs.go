package resourceset

import (
	"cmp"
	"fmt"
	"hash/adler32"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"homelab/lab"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// maxSets limits the sets of inputs: https://fluxoperator.dev/docs/crd/resourceset/#input-strategy
const maxSets = 10_000

// inputs are values for templates.
type inputs struct {
	values func(uid string) map[string]any // with an inputs.id
	by     string                          // object whose UID that depends on, which only a cluster assigns; empty if it does not
}

// provided are the inputs of an object.
type provided struct {
	name string // normalized
	sets []inputs
}

// inputSets returns the inputs with which templates are executed.
func (x *expansion) inputSets() ([]inputs, error) {
	all, err := x.provided()
	if err != nil {
		return nil, err
	}
	spec := strict.Get(x.Node, "spec")
	strategy := strict.Get(spec, "inputStrategy", "name")
	switch strict.Text(strategy) {
	case "Permute":
		if len(x.unknown) > 0 { // nor are their products
			return nil, nil
		}
		return x.permuted(all)
	case "", "Flatten":
		var list []inputs
		for _, p := range all {
			list = append(list, p.sets...)
		}
		return x.orNone(list), nil
	}
	return nil, x.fail(strategy, fmt.Sprintf("spec.inputStrategy.name cannot be %q", strategy.Value), "Flatten or Permute")
}

// orNone returns a list of inputs. Without any, the operator executes templates once, without values.
func (x *expansion) orNone(list []inputs) []inputs {
	if len(list) == 0 && len(x.unknown) == 0 {
		return []inputs{{values: func(string) map[string]any { return map[string]any{} }}}
	}
	return list
}

// provided returns the inputs of the set itself and of its providers.
func (x *expansion) provided() (all []provided, err error) {
	own := strict.Get(x.Node, "spec", "inputs")
	if own != nil && own.Kind != yaml.SequenceNode && !strict.IsNull(own) {
		return nil, x.fail(own, "spec.inputs must be a list, not "+strict.KindOf(own), "")
	}
	if list := strict.List(own); len(list) > 0 {
		p := provided{name: normalized(strict.Text(x.Node, "metadata", "name"))}
		for i, n := range list {
			values, err := x.values(n, fmt.Sprintf("spec.inputs[%d]", i))
			if err != nil {
				return nil, err
			}
			withProvider(values, x.Document, Kind)
			p.sets = append(p.sets, inputs{values: func(string) map[string]any { return values }})
		}
		all = append(all, p)
	}
	var from []render.Document
	for i, of := range strict.List(x.Node, "spec", "inputsFrom") {
		found, err := x.selected(of, fmt.Sprintf("spec.inputsFrom[%d]", i))
		if err != nil {
			return nil, err
		}
		from = append(from, found...)
	}
	name := func(o render.Document) string { return strict.Text(o.Node, "metadata", "name") }
	slices.SortStableFunc(from, func(a, b render.Document) int { return strings.Compare(name(a), name(b)) })
	from = slices.CompactFunc(from, func(a, b render.Document) bool { return name(a) == name(b) })
	for _, of := range from {
		p, err := x.exported(of)
		if err != nil {
			return nil, err
		}
		all = append(all, p...)
	}
	return all, nil
}

// values decodes a mapping of inputs.
func (x *expansion) values(n *yaml.Node, path string) (map[string]any, error) {
	if n.Kind != yaml.MappingNode {
		return nil, x.fail(n, path+" must be a mapping, not "+strict.KindOf(n), "")
	}
	text, err := strict.JSON(n)
	values := map[string]any{}
	if err == nil {
		err = utiljson.Unmarshal(text, &values)
	}
	if err != nil {
		return nil, x.fail(n, path+": "+err.Error(), "")
	}
	return values, nil
}

// selected returns the providers that an element of spec.inputsFrom names or selects.
func (x *expansion) selected(from *yaml.Node, path string) (found []render.Document, err error) {
	name, selector := strict.Text(from, "name"), strict.Get(from, "selector")
	if (name == "") == (selector == nil) {
		return nil, x.fail(from, path+" must have either name or selector", "")
	}
	matches := labels.Everything()
	if selector != nil {
		var by metav1.LabelSelector
		if err = strict.Into(selector, &by); err == nil {
			matches, err = metav1.LabelSelectorAsSelector(&by)
		}
		if err != nil {
			return nil, x.fail(selector, path+".selector: "+err.Error(), "")
		}
	}
	for _, p := range x.Providers {
		of := strict.Text(p.Node, "metadata", "name")
		if strict.Text(p.Node, "metadata", "namespace") == x.namespace() && (name == "" || of == name) && matches.Matches(labels.Set(strict.Texts(p.Node, "metadata", "labels"))) {
			found = append(found, p)
		}
	}
	if name != "" && len(found) == 0 {
		x.note(lab.Position{File: x.File, Line: from.Line}, "the inputs of %s %s/%s, which nothing in the repositories creates, are not known", Provider, x.namespace(), name)
	}
	return found, nil
}

// exported returns what a provider exports, or nothing if the files do not have it.
func (x *expansion) exported(p render.Document) ([]provided, error) {
	spec := strict.Get(p.Node, "spec")
	at := lab.Position{File: p.File, Line: p.Line}
	if kind := strict.Text(spec, "type"); kind != "Static" {
		x.note(at, "the inputs of %s of type %s are known only to a running operator: %s", strict.Title(p.Node), kind, strict.Text(spec, "url"))
		return nil, nil
	}
	if disabled(p.Node) {
		x.note(at, "%s is disabled: %s", strict.Title(p.Node), reconcile)
		return nil, nil
	}
	values := map[string]any{}
	if n := strict.Get(spec, "defaultValues"); n != nil {
		of := *x
		of.File = p.File
		var err error
		if values, err = of.values(n, "spec.defaultValues of "+strict.Title(p.Node)); err != nil {
			return nil, err
		}
	}
	withProvider(values, p, Provider)
	return []provided{{normalized(strict.Text(p.Node, "metadata", "name")), []inputs{{by: strict.Title(p.Node), values: func(uid string) map[string]any {
		of := maps.Clone(values)
		of["id"] = uid
		return of
	}}}}}, nil
}

// withProvider sets the fields that the operator sets.
func withProvider(values map[string]any, by render.Document, kind string) {
	values["provider"] = map[string]any{
		"apiVersion": apiVersion, "kind": kind, "name": strict.Text(by.Node, "metadata", "name"), "namespace": strict.Text(by.Node, "metadata", "namespace"),
	}
}

// permuted returns the product of all sets.
func (x *expansion) permuted(all []provided) ([]inputs, error) {
	n := 1
	for _, p := range all {
		if n *= len(p.sets); n > maxSets {
			return nil, x.fail(strict.Get(x.Node, "spec", "inputStrategy"), fmt.Sprintf("more than %d permutations of inputs", maxSets), "")
		}
	}
	if len(all) == 0 {
		return x.orNone(nil), nil
	}
	type combination struct {
		inputs
		id []string // what inputs.id is the checksum of
	}
	list := []combination{{inputs: inputs{values: func(string) map[string]any { return map[string]any{} }}}}
	for _, p := range all {
		var next []combination
		for _, one := range list {
			for i, in := range p.sets {
				c := combination{id: append(slices.Clone(one.id), fmt.Sprintf("%s=%d", p.name, i))}
				c.by = cmp.Or(one.by, in.by)
				c.values = func(uid string) map[string]any {
					values := one.values(uid)
					values[p.name] = in.values(uid)
					values["id"] = fmt.Sprint(adler32.Checksum([]byte(strings.Join(c.id, "/"))))
					return values
				}
				next = append(next, c)
			}
		}
		list = next
	}
	var sets []inputs
	for _, c := range list {
		sets = append(sets, c.inputs)
	}
	return sets, nil
}

// normalized returns the name of an object as a field of a template.
func normalized(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == ' ' || r == '_' || r == '-' || r == '.' })
	return strings.Join(words, "_")
}
