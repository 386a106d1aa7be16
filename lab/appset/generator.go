package appset

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab/argo"
	"homelab/lab/strict"
)

// paramSet holds the parameters of one Application. Values have the controller's types, as seen by templates and
// merges.
type paramSet struct {
	values map[string]any
	from   []contribution // sources of the values; later ones win
}

// generate is a generator of one kind, with its template.
type generate struct {
	name     string // of the field
	template Template
	params   func(g *Generator, node *yaml.Node) ([]paramSet, error)
}

// kinds returns the generators of g in the controller's order.
func (x *expander) kinds(g *Generator) []generate {
	var kinds []generate
	unknown := func(name string) {
		kinds = append(kinds, generate{name: name, params: func(_ *Generator, node *yaml.Node) ([]paramSet, error) {
			return nil, &UnknownError{Position: x.at(node), What: name + " generator"}
		}})
	}
	if g.List != nil {
		kinds = append(kinds, generate{"list", g.List.Template, x.list})
	}
	if g.Clusters != nil {
		kinds = append(kinds, generate{"clusters", g.Clusters.Template, x.clusters})
	}
	if g.Git != nil {
		kinds = append(kinds, generate{"git", g.Git.Template, x.git})
	}
	if g.SCMProvider != nil {
		unknown("scmProvider")
	}
	if g.ClusterDecisionResource != nil {
		unknown("clusterDecisionResource")
	}
	if g.PullRequest != nil {
		unknown("pullRequest")
	}
	if g.Matrix != nil {
		kinds = append(kinds, generate{"matrix", g.Matrix.Template, x.matrix})
	}
	if g.Merge != nil {
		kinds = append(kinds, generate{"merge", g.Merge.Template, x.merge})
	}
	if g.Plugin != nil {
		unknown("plugin")
	}
	return kinds
}

// transform returns the results of a generator. The first generator's parameters are substituted in the second of a
// matrix.
func (x *expander) transform(g *Generator, node *yaml.Node, base Template, outer map[string]any) ([]result, error) {
	selects, err := postSelector(g.Selector)
	if err != nil {
		return nil, failed(strict.Get(node, "selector"), "%w", err)
	}
	var results []result
	for _, kind := range x.kinds(g) {
		at := strict.Get(node, kind.name)
		merged, err := mergeTemplates(kind.template, base)
		if err != nil {
			return nil, failed(at, "%w", err)
		}
		filled := g
		if len(outer) > 0 {
			interpolated, err := renderAll(x.compiled, *g, outer)
			if err != nil {
				return nil, &failure{at: x.generatorNode(node, err), reason: ReasonParameters, err: err}
			}
			filled = &interpolated
		}
		params, err := kind.params(filled, at)
		if err != nil {
			return nil, err
		}
		if err := x.compiled.spent.generated(len(params)); err != nil {
			return nil, failed(at, "%w", err)
		}
		if g.Selector != nil {
			params = slices.DeleteFunc(params, func(p paramSet) bool { return !selects(flatten(p.values)) })
		}
		r := result{params: params, template: merged}
		if hasTemplate(kind.template) {
			r.origin = strict.Get(at, "template")
		}
		results = append(results, r)
	}
	return results, nil
}

func (x *expander) generatorNode(node *yaml.Node, err error) *yaml.Node {
	var f *fieldError
	if errors.As(err, &f) {
		path := slices.Clone(f.path)
		slices.Reverse(path)
		if n := nodeAt(node, path); n != nil {
			return n
		}
	}
	return node
}

func (x *expander) list(g *Generator, node *yaml.Node) ([]paramSet, error) {
	sets := make([]paramSet, 0, len(g.List.Elements))
	for i, raw := range g.List.Elements {
		at := strict.Get(node, "elements", i)
		var element map[string]any
		if err := json.Unmarshal(raw.Raw, &element); err != nil {
			return nil, failed(at, "an element of a list is a mapping: %w", err)
		}
		if !x.Spec.GoTemplate {
			flat, err := plainElement(element)
			if err != nil {
				return nil, failed(at, "%w", err)
			}
			element = flat
		}
		sets = append(sets, paramSet{values: element, from: []contribution{{node: at, generator: "list", values: element}}})
	}
	if g.List.ElementsYAML != "" {
		at := strict.Get(node, "elementsYaml")
		var more []map[string]any
		if err := yamlUnmarshal(g.List.ElementsYAML, &more); err != nil {
			return nil, failed(at, "elementsYaml: %w", err)
		}
		for _, element := range more {
			sets = append(sets, paramSet{values: element, from: []contribution{{node: at, generator: "list", values: element}}})
		}
	}
	return sets, nil
}

// plainElement flattens an element for fasttemplate, which supports only strings.
func plainElement(element map[string]any) (map[string]any, error) {
	var flat map[string]any // remains nil for an empty element
	for key, value := range element {
		if flat == nil {
			flat = map[string]any{}
		}
		if key != "values" {
			s, ok := value.(string)
			if !ok {
				return nil, fmt.Errorf("%s is %v, not a string: without goTemplate all values are strings", key, value)
			}
			flat[key] = s
			continue
		}
		values, ok := value.(map[string]any)
		if !ok {
			return nil, errors.New("values is not a mapping")
		}
		for k, v := range values {
			s, ok := v.(string)
			if !ok {
				return nil, fmt.Errorf("values.%s is %v, not a string: without goTemplate all values are strings", k, v)
			}
			flat["values."+k] = s
		}
	}
	return flat, nil
}

func (x *expander) clusters(g *Generator, node *yaml.Node) ([]paramSet, error) {
	c := g.Clusters
	if x.asked != nil {
		*x.asked = append(*x.asked, c.Selector)
	}
	selector, err := metav1.LabelSelectorAsSelector(metav1.AddLabelToSelector(c.Selector.DeepCopy(), argo.SecretType, argo.SecretTypeCluster))
	if err != nil {
		return nil, failed(strict.Get(node, "selector"), "%w", err)
	}
	matching := map[string]Cluster{} // by name: the last duplicate wins
	for _, cluster := range x.Clusters {
		if selector.Matches(labels.Set(cluster.Labels)) {
			matching[cluster.Name] = cluster
		}
	}
	everyone := len(c.Selector.MatchLabels) == 0 && len(c.Selector.MatchExpressions) == 0
	var local, remote []paramSet
	for _, known := range x.registered() {
		cluster, ok := matching[known.Name]
		if !ok && !everyone {
			continue
		}
		p := paramSet{from: []contribution{{node: node, generator: "clusters", cluster: known.Name}}}
		if ok {
			p.values = x.clusterParams(cluster)
		} else {
			p.values = map[string]any{"name": known.Name, "nameNormalized": known.Name, "server": known.Server, "project": ""}
		}
		if err := x.addValues(c.Values, &p, strict.Get(node, "values")); err != nil {
			return nil, err
		}
		if ok {
			remote = append(remote, p)
		} else {
			local = append(local, p)
		}
	}
	all := append(local, remote...)
	if !c.FlatList {
		return all, nil
	}
	list := make([]map[string]any, 0, len(all))
	flat := paramSet{}
	for _, p := range all {
		list = append(list, p.values)
		flat.from = append(flat.from, p.from...)
	}
	if len(list) == 0 {
		list = nil
	}
	flat.values = map[string]any{"clusters": list}
	return []paramSet{flat}, nil
}

func (x *expander) clusterParams(c Cluster) map[string]any {
	params := map[string]any{"name": c.Name, "nameNormalized": normalize(c.Name), "server": c.Server, "project": c.Project}
	if x.Spec.GoTemplate {
		meta := map[string]any{}
		if len(c.Annotations) > 0 {
			meta["annotations"] = maps.Clone(c.Annotations)
		}
		if len(c.Labels) > 0 {
			meta["labels"] = maps.Clone(c.Labels)
		}
		params["metadata"] = meta
		return params
	}
	for k, v := range c.Annotations {
		params["metadata.annotations."+k] = v
	}
	for k, v := range c.Labels {
		params["metadata.labels."+k] = v
	}
	return params
}

// addValues renders a generator's values and adds them to its parameters.
func (x *expander) addValues(values map[string]string, p *paramSet, node *yaml.Node) error {
	if len(values) == 0 {
		return nil
	}
	rendered := make(map[string]string, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		text, err := x.compiled.replace(values[key], p.values)
		if err != nil {
			return failed(strict.Get(node, key), "values: %w", err)
		}
		rendered[key] = text
	}
	if x.Spec.GoTemplate {
		p.values["values"] = rendered
		return nil
	}
	for key, text := range rendered {
		p.values["values."+key] = text
	}
	return nil
}

// yamlUnmarshal reads YAML 1.1, like the controller.
func yamlUnmarshal(text string, into any) error { return sigsyaml.Unmarshal([]byte(text), into) }
