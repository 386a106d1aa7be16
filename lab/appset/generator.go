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
	if g.OCI != nil {
		kinds = append(kinds, generate{name: "oci", params: func(_ *Generator, node *yaml.Node) ([]paramSet, error) {
			return nil, &UnknownError{Position: x.at(node), What: "generator of " + g.OCI.RepoURL}
		}})
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
			interpolated, err := renderGenerator(x.compiled, *g, outer)
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
			params = slices.DeleteFunc(params, func(p paramSet) bool { return !selects(flatten(p.values, x.Minor)) })
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
	var matching []Cluster
	for _, cluster := range x.Clusters {
		if selector.Matches(labels.Set(cluster.Labels)) {
			matching = append(matching, cluster)
		}
	}
	everyone := len(c.Selector.MatchLabels) == 0 && len(c.Selector.MatchExpressions) == 0
	add := func(to *[]paramSet, name string, values map[string]any) error {
		p := paramSet{values: values, from: []contribution{{node: node, generator: "clusters", cluster: name}}}
		*to = append(*to, p)
		return x.addValues(c.Values, &p, strict.Get(node, "values"))
	}
	list := x.listed
	if x.Minor.Has(4) {
		list = x.found
	}
	all, err := list(matching, everyone, node, add)
	if err != nil {
		return nil, err
	}
	if !c.FlatList {
		return all, nil
	}
	if len(all) > 1 && x.Minor.Has(4) {
		x.unordered = node
		all = turned(all, x.turn)
	}
	var values []map[string]any
	flat := paramSet{}
	for _, p := range all {
		values = append(values, p.values)
		flat.from = append(flat.from, p.from...)
	}
	flat.values = map[string]any{"clusters": values}
	return []paramSet{flat}, nil
}

// adder adds the parameters of a cluster to a list.
type adder func(to *[]paramSet, name string, values map[string]any) error

// listed returns the parameters of clusters as before 3.4: one for each registration that has the name of a matching one, Argo CD's own cluster first.
func (x *expander) listed(matching []Cluster, everyone bool, _ *yaml.Node, add adder) ([]paramSet, error) {
	byName := map[string]Cluster{} // the last duplicate wins
	for _, cluster := range matching {
		byName[cluster.Name] = cluster
	}
	var local, remote []paramSet
	for _, known := range x.registered() {
		var err error
		if cluster, ok := byName[known.Name]; ok {
			err = add(&remote, known.Name, x.clusterParams(cluster))
		} else if everyone {
			err = add(&local, known.Name, unregistered(known))
		}
		if err != nil {
			return nil, err
		}
	}
	return append(local, remote...), nil
}

// found returns the parameters of clusters as since 3.4: those that match, and Argo CD's own at the end if no registration has exactly its address. Of two with
// one name, it takes either.
func (x *expander) found(matching []Cluster, everyone bool, node *yaml.Node, add adder) ([]paramSet, error) {
	var all []paramSet
	local := false
	names := map[string]bool{}
	for _, cluster := range matching {
		if names[cluster.Name] {
			return nil, &UnknownError{Position: x.at(node), What: "clusters generator", Reason: fmt.Sprintf("two clusters are named %q, and it takes either", cluster.Name)}
		}
		names[cluster.Name] = true
		local = local || cluster.Server == InCluster
		if err := add(&all, cluster.Name, x.clusterParams(cluster)); err != nil {
			return nil, err
		}
	}
	if !everyone || local {
		return all, nil
	}
	own := Cluster{Name: InClusterName, Server: InCluster}
	return all, add(&all, own.Name, unregistered(own))
}

func unregistered(c Cluster) map[string]any {
	return map[string]any{"name": c.Name, "nameNormalized": c.Name, "server": c.Server, "project": ""}
}

// ownAnnotations are those of registrations that are not parameters, by the minor since which.
var ownAnnotations = map[string]argo.Minor{
	argo.Prefix + "refresh": 3, argo.Prefix + "hydrate": 3, argo.Prefix + "tracking-id": 3, argo.Prefix + "installation-id": 3,
	"kubectl.kubernetes.io/last-applied-configuration": 3, argo.Prefix + "refresh-timestamp": 6, argo.Prefix + "hydrate-timestamp": 6,
}

func (x *expander) clusterParams(c Cluster) map[string]any {
	params := map[string]any{"name": c.Name, "nameNormalized": normalize(c.Name), "server": c.Server, "project": c.Project}
	annotations := maps.Clone(c.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool { since := ownAnnotations[key]; return since != 0 && x.Minor.Has(since) })
	if x.Spec.GoTemplate {
		meta := map[string]any{}
		if len(c.Annotations) > 0 {
			meta["annotations"] = annotations
		}
		if len(c.Labels) > 0 {
			meta["labels"] = maps.Clone(c.Labels)
		}
		params["metadata"] = meta
		return params
	}
	for k, v := range annotations {
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
