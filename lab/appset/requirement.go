package appset

import (
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"homelab/lab"
	"homelab/lab/strict"
)

// Requirement is one of a clusters generator's selector.
type Requirement struct {
	lab.Position
	Key  string
	Text string // "enable_web in (true)"
	Met  bool
	Open bool // it has a template, so that Met is unknown
}

// Requirements returns those of all clusters generators, nested ones included, and whether labels meet them. Of a merge, the first generator decides what there is.
func (s *Set) Requirements(of map[string]string) (list []Requirement) {
	var walk func(generators ...*yaml.Node)
	walk = func(generators ...*yaml.Node) {
		for _, g := range generators {
			if g == nil {
				continue
			}
			list = append(list, s.requirements(strict.Get(g, "clusters", "selector"), of)...)
			walk(items(strict.Get(g, "matrix", "generators"))...)
			walk(strict.Get(g, "merge", "generators", 0))
		}
	}
	walk(items(strict.Get(s.node, "spec", "generators"))...)
	return list
}

func items(n *yaml.Node) []*yaml.Node {
	if n == nil {
		return nil
	}
	return n.Content
}

func (s *Set) requirements(selector *yaml.Node, of map[string]string) (list []Requirement) {
	add := func(at *yaml.Node, r metav1.LabelSelectorRequirement) {
		one := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{r}}
		next := Requirement{Position: s.at(at), Key: r.Key, Text: metav1.FormatLabelSelector(one), Open: strings.Contains(r.Key+strings.Join(r.Values, ""), "{{")}
		if next.Open {
			next.Text = r.Key + " " + string(r.Operator) + " " + strings.Join(r.Values, ", ")
		} else if selects, err := metav1.LabelSelectorAsSelector(one); err == nil {
			next.Met = selects.Matches(labels.Set(of))
		}
		list = append(list, next)
	}
	if exact := strict.Get(selector, "matchLabels"); exact != nil && exact.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(exact.Content); i += 2 {
			add(exact.Content[i], metav1.LabelSelectorRequirement{Key: exact.Content[i].Value, Operator: metav1.LabelSelectorOpIn, Values: []string{exact.Content[i+1].Value}})
		}
	}
	for _, e := range items(strict.Get(selector, "matchExpressions")) {
		r := metav1.LabelSelectorRequirement{Key: strict.Text(e, "key"), Operator: metav1.LabelSelectorOperator(strict.Text(e, "operator"))}
		for _, v := range items(strict.Get(e, "values")) {
			r.Values = append(r.Values, v.Value)
		}
		add(e, r)
	}
	return list
}
