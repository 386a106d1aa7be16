package estate

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/bridge"
)

// engineLabels begin the labels that Argo CD's own keys have. It writes some of them itself, after lab.
const engineLabels = "argocd.argoproj.io/"

// secretType is the one of them that every registration carries from the start.
const secretType = engineLabels + "secret-type"

// selectors are what the generators of an ApplicationSet select clusters by; one that suits is enough. The answer is false where labels alone do not tell: files,
// lists and pull requests generate too, alone or in a matrix.
func (a applicationSet) selectors() ([]labels.Selector, bool) {
	list := get(a.spec, "generators")
	if list == nil || len(list.Content) == 0 {
		return nil, false
	}
	var all []labels.Selector
	for _, g := range list.Content {
		s, ok := selectorOf(g)
		if !ok {
			return nil, false
		}
		all = append(all, s)
	}
	return all, true
}

// selectorOf is the selector of a clusters generator, or of the first of several that are merged: the others add to what that one generates.
func selectorOf(generator *yaml.Node) (labels.Selector, bool) {
	if generator.Kind != yaml.MappingNode || len(generator.Content) != 2 { // one key and its value: a selector beside it judges what was generated
		return nil, false
	}
	if first := get(generator, "merge", "generators", 0); first != nil {
		return selectorOf(first)
	}
	clusters := get(generator, "clusters")
	if clusters == nil {
		return nil, false
	}
	var selector metav1.LabelSelector
	if n := get(clusters, "selector"); n != nil {
		data, err := yaml.Marshal(n)
		if err != nil || templated(string(data)) || sigsyaml.Unmarshal(data, &selector) != nil {
			return nil, false
		}
	}
	s, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return nil, false
	}
	requirements, _ := s.Requirements()
	for _, r := range requirements {
		if strings.HasPrefix(r.Key(), engineLabels) && r.Key() != secretType {
			return nil, false
		}
	}
	return s, true
}

// selected notes for every cluster which addons' ApplicationSets select it, where that can be told: l.selectors holds those of all such addons.
func (l *loader) selected() {
	in := bridge.DefaultInputs(l.estate.Name, l.estate.Addons)
	def, _ := l.estate.Environment(lab.DefaultEnvironment)
	unheard := map[string][]string{} // addon -> clusters whose word for it nobody asks for
	for i := range l.estate.Clusters {
		c := &l.estate.Clusters[i]
		env, _ := l.estate.Environment(c.Environment)
		set := labels.Set{secretType: "cluster"}
		for k, v := range bridge.Build(l.estate.Name, env, def, *c, in).Labels {
			set[k] = v.Value
		}
		c.Selected = map[string]bool{}
		for addon, list := range l.selectors {
			c.Selected[addon] = slices.ContainsFunc(list, func(s labels.Selector) bool { return s.Matches(set) })
			heard := slices.ContainsFunc(list, func(s labels.Selector) bool { return hears(s, lab.EnableLabel(addon)) })
			if c.Addons[addon] && !c.Selected[addon] && !heard {
				unheard[addon] = append(unheard[addon], c.Name)
			}
		}
	}
	for _, a := range l.estate.Addons {
		if clusters := unheard[a.Name]; len(clusters) > 0 {
			l.at(a.Position("generators"), fmt.Sprintf("no generator selects clusters by %s: \"true\", as %s should be", lab.EnableLabel(a.Name), strings.Join(clusters, ", ")),
				"ask for the label in the selector of a clusters generator, or switch the addon off under spec.addons of the clusters")
		}
	}
}

// hears reports whether a label is asked for, and its value "true" is what is asked.
func hears(s labels.Selector, label string) bool {
	requirements, _ := s.Requirements()
	return slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return r.Key() == label && r.Matches(labels.Set{label: "true"}) })
}
