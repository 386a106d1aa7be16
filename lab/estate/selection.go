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

// selection is the clusters that one generator makes an Application for: those whose registration every one of these selects.
type selection []labels.Selector

func (s selection) matches(set labels.Set) bool {
	for _, selector := range s {
		if !selector.Matches(set) {
			return false
		}
	}
	return true
}

// engineLabels begin the labels that Argo CD's own keys have. It writes some of them itself, after lab.
const engineLabels = "argocd.argoproj.io/"

// secretType is the one of them that every registration carries from the start.
const secretType = engineLabels + "secret-type"

// selections are what the generators of an ApplicationSet select clusters by; a cluster is had by one of them. The answer is false where labels alone do not
// tell: files, lists and pull requests generate too, and parameters of one generator may be the selector of another.
func (a applicationSet) selections() ([]selection, bool) {
	list := get(a.spec, "generators")
	if list == nil || len(list.Content) == 0 {
		return nil, false
	}
	var all []selection
	for _, g := range list.Content {
		s, ok := selectionOf(g)
		if !ok {
			return nil, false
		}
		all = append(all, s)
	}
	return all, true
}

func selectionOf(generator *yaml.Node) (selection, bool) {
	if generator.Kind != yaml.MappingNode || len(generator.Content) != 2 { // one key and its value: a selector beside it judges what was generated
		return nil, false
	}
	var nested []*yaml.Node
	if list := get(generator, "merge", "generators"); list != nil && len(list.Content) > 0 {
		nested = list.Content[:1] // the first one generates, the others add to what it has generated
	} else if list := get(generator, "matrix", "generators"); list != nil {
		nested = list.Content // what all of them have in common
	} else if clusters := get(generator, "clusters"); clusters != nil {
		return selectorOf(get(clusters, "selector"))
	}
	var both selection
	for _, g := range nested {
		s, ok := selectionOf(g)
		if !ok {
			return nil, false
		}
		both = append(both, s...)
	}
	return both, len(both) > 0
}

func selectorOf(n *yaml.Node) (selection, bool) {
	var selector metav1.LabelSelector
	if n != nil {
		data, err := yaml.Marshal(n)
		if err != nil || strings.Contains(string(data), "{{") || sigsyaml.Unmarshal(data, &selector) != nil {
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
	return selection{s}, true
}

// selected notes for every cluster which addons' ApplicationSets select it, where that can be told: l.selections holds those of all such addons.
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
		for addon, list := range l.selections {
			c.Selected[addon] = slices.ContainsFunc(list, func(s selection) bool { return s.matches(set) })
			hears := func(s selection) bool { return s.hears(lab.EnableLabel(addon)) }
			if c.Addons[addon] && !c.Selected[addon] && !slices.ContainsFunc(list, hears) {
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

// hears says whether a label is asked for, and its value "true" is what is asked.
func (s selection) hears(label string) bool {
	for _, selector := range s {
		requirements, _ := selector.Requirements()
		for _, r := range requirements {
			if r.Key() == label && r.Matches(labels.Set{label: "true"}) {
				return true
			}
		}
	}
	return false
}
