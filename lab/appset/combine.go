package appset

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"dario.cat/mergo"
	"go.yaml.in/yaml/v3"

	"homelab/lab/strict"
)

func (x *expander) matrix(g *Generator, node *yaml.Node) ([]paramSet, error) {
	if n := len(g.Matrix.Generators); n != 2 {
		return nil, failed(node, "a matrix has two generators, not %d", n)
	}
	first, err := x.childParams(g.Matrix.Generators[0], strict.Get(node, "generators", 0), nil)
	if err != nil {
		return nil, err
	}
	at := strict.Get(node, "generators", 1)
	var all []paramSet
	for _, a := range first {
		second, err := x.childParams(g.Matrix.Generators[1], at, a.values)
		if err != nil {
			return nil, err
		}
		if len(all)+len(second) > maxParams {
			return nil, failed(at, "%w", x.compiled.spent.generated(len(all)+len(second)))
		}
		for _, b := range second {
			values, err := x.combine(a.values, b.values)
			if err != nil {
				return nil, failed(at, "%w", err)
			}
			all = append(all, paramSet{values: values, from: slices.Concat(b.from, a.from)})
		}
	}
	return all, nil
}

// combine merges the parameters of a matrix's generators: with Go templates the first wins, otherwise they must not
// conflict.
func (x *expander) combine(first, second map[string]any) (map[string]any, error) {
	out := map[string]any{}
	if x.Spec.GoTemplate {
		if err := mergo.Merge(&out, second, mergo.WithOverride); err != nil {
			return nil, err
		}
		return out, mergo.Merge(&out, first, mergo.WithOverride)
	}
	for k, v := range first {
		out[k] = fmt.Sprint(v)
	}
	for k, v := range second {
		text := fmt.Sprint(v)
		if before, ok := out[k]; ok && before != text {
			return nil, fmt.Errorf("the generators of the matrix have different values of %s: %s and %s", k, before, text)
		}
		out[k] = text
	}
	return out, nil
}

func (x *expander) merge(g *Generator, node *yaml.Node) ([]paramSet, error) {
	if n := len(g.Merge.Generators); n < 2 {
		return nil, failed(node, "a merge has two generators or more, not %d", n)
	}
	all := make([][]paramSet, len(g.Merge.Generators))
	for i, c := range g.Merge.Generators {
		var err error
		if all[i], err = x.childParams(c, strict.Get(node, "generators", i), nil); err != nil {
			return nil, err
		}
	}
	base, err := byKey(g.Merge.MergeKeys, all[0], strict.Get(node, "generators", 0))
	if err != nil {
		return nil, err
	}
	for i, sets := range all[1:] {
		over, err := byKey(g.Merge.MergeKeys, sets, strict.Get(node, "generators", i+1))
		if err != nil {
			return nil, err
		}
		for key, set := range base {
			other, ok := over[key]
			if !ok {
				continue
			}
			if !x.Spec.GoTemplate {
				maps.Copy(set.values, other.values)
			} else if err := mergo.Merge(&set.values, other.values, mergo.WithOverride); err != nil {
				return nil, failed(node, "%w", err)
			}
			set.from = slices.Concat(set.from, other.from)
			base[key] = set
		}
	}
	out := make([]paramSet, 0, len(base))
	for _, key := range slices.Sorted(maps.Keys(base)) {
		out = append(out, base[key])
	}
	return out, nil
}

// byKey indexes parameters by the values of the merge keys. A missing key is null; one with a nested value is always
// missing.
func byKey(keys []string, sets []paramSet, node *yaml.Node) (map[string]paramSet, error) {
	if len(keys) == 0 {
		return nil, failed(node, "a merge needs mergeKeys")
	}
	index := make(map[string]paramSet, len(sets))
	for _, set := range sets {
		key := map[string]any{}
		for _, k := range keys {
			key[k] = set.values[k]
		}
		data, err := json.Marshal(key)
		if err != nil {
			return nil, failed(node, "mergeKeys: %w", err)
		}
		if other, ok := index[string(data)]; ok {
			hint := "use a matrix, which combines each with the other generator"
			if len(set.from) > 0 && set.from[0].cluster != "" && !slices.Contains(keys, "server") {
				hint += ", or the key server, which tells clusters apart"
			}
			return nil, failed(node, "two sets of parameters have the same merge keys, %s: %s; %s", data, clashing([]paramSet{other, set}), hint)
		}
		index[string(data)] = set
	}
	return index, nil
}

// childParams returns the parameters of a generator within a matrix or merge.
func (x *expander) childParams(c Child, node *yaml.Node, outer map[string]any) ([]paramSet, error) {
	g := Generator{Leaf: c.Leaf}
	if c.Matrix != nil {
		var nested struct{ Generators []Leaf }
		if err := json.Unmarshal(c.Matrix.Raw, &nested); err != nil {
			return nil, failed(strict.Get(node, "matrix"), "%w", err)
		}
		API{x.Minor}.forget(reflect.ValueOf(&nested))
		g.Matrix = &Matrix{Generators: childrenOf(nested.Generators)}
	}
	if c.Merge != nil {
		var nested struct {
			Generators []Leaf
			MergeKeys  []string
		}
		if err := json.Unmarshal(c.Merge.Raw, &nested); err != nil {
			return nil, failed(strict.Get(node, "merge"), "%w", err)
		}
		API{x.Minor}.forget(reflect.ValueOf(&nested))
		g.Merge = &Merge{Generators: childrenOf(nested.Generators), MergeKeys: nested.MergeKeys}
	}
	results, err := x.transform(&g, node, Template{}, outer)
	if err != nil {
		return nil, err
	}
	if len(results) != 1 {
		return nil, failed(node, "an item of a matrix or merge has one generator, not %d", len(results))
	}
	return results[0].params, nil
}

func childrenOf(list []Leaf) []Child {
	out := make([]Child, len(list))
	for i, leaf := range list {
		out[i] = Child{Leaf: leaf}
	}
	return out
}
