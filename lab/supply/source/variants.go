package source

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
)

// Variant is another version of an image, built by the same recipes with other versions.
type Variant struct {
	Image    string            `yaml:"image"`
	Versions map[string]string `yaml:"versions"`
}

// VariantName returns the name of a component's variant: argocd-3.2.11 for argocd and v3.2.11.
func VariantName(component, version string) string {
	return component + "-" + strings.TrimPrefix(version, "v")
}

// Versioned returns an image and its variants, in the order of the recipes. It is empty for an unknown image.
func (r *Recipes) Versioned(image string) []*Component {
	var list []*Component
	for _, c := range r.Components {
		if c.Name == image || c.VariantOf == image && c.Name == VariantName(image, c.Version) {
			list = append(list, c)
		}
	}
	return list
}

// addVariants appends the components of all variants that differ from the others. lines are those of the variants.
func (r *Recipes) addVariants(file string, data []byte, lines []int) lab.Problems {
	var problems lab.Problems
	var unexpanded yaml.Node // parsed once: decoding takes a fifth of it
	if err := yaml.Unmarshal(data, &unexpanded); err != nil {
		return yamlProblems(file, err)
	}
	base := slices.Clone(r.Components)
	for i, v := range r.Variants {
		at := lab.Position{File: file}
		if i < len(lines) {
			at.Line = lines[i]
		}
		wrong := func(format string, args ...any) {
			problems = append(problems, lab.Problem{Position: at, Message: fmt.Sprintf("variant of %q: ", v.Image) + fmt.Sprintf(format, args...)})
		}
		versions := maps.Clone(r.Versions)
		for name, version := range v.Versions {
			if _, known := versions[name]; !known {
				wrong("%s is not under versions", name)
			}
			versions[name] = version
		}
		_, unknown := expand(file, data, versions)
		problems = append(problems, unknown...)
		var of Recipes
		if err := expanded(&unexpanded, versions).Decode(&of); err != nil {
			wrong("%v", err)
			continue
		}
		image, ok := of.Get(v.Image)
		if !ok || image.Kind != KindImage && image.Kind != KindNode {
			wrong("no such image")
			continue
		}
		added, err := variant(base, &of, image)
		switch {
		case err != nil:
			wrong("%v", err)
		case len(added) == 0:
			wrong("it is the image itself")
		case r.index(added[len(added)-1].Name) >= 0:
			wrong("duplicate version %s", image.Version)
		default:
			r.Components = append(r.Components, added...)
		}
	}
	return problems
}

// expanded returns a copy of a node in which placeholders are replaced.
func expanded(n *yaml.Node, versions map[string]string) *yaml.Node {
	c := *n
	if text, _ := expand("", []byte(n.Value), versions); n.Kind == yaml.ScalarNode {
		c.Value = string(text)
	}
	c.Content = nil
	for _, child := range n.Content {
		c.Content = append(c.Content, expanded(child, versions))
	}
	return &c
}

// variant returns what an image is built from if it differs from the base components, dependencies first.
func variant(base []*Component, of *Recipes, image *Component) ([]*Component, error) {
	version, inside := image.Version, of.closure(image, base)
	renamed := map[string]string{}
	var list []*Component
	for _, c := range of.Components {
		if !inside[c.Name] {
			continue
		}
		was := baseOf(base, c.Name)
		c.rename(renamed)
		same, err := equal(was, c)
		if err != nil {
			return nil, err
		}
		if same {
			continue
		}
		name := VariantName(c.Name, version)
		renamed[c.Name] = name
		c.VariantOf, c.Name, c.Optional, c.Charts = c.Name, name, true, nil
		c.With = "" // a program may not compile with older libraries than its own
		list = append(list, c)
	}
	return list, nil
}

func baseOf(base []*Component, name string) *Component {
	return base[slices.IndexFunc(base, func(b *Component) bool { return b.Name == name })]
}

// equal reports whether two components are the same but for the libraries that they share with others.
func equal(a, b *Component) (bool, error) {
	one, other := *a, *b
	one.With, other.With = "", ""
	text, err := json.Marshal(one)
	if err != nil {
		return false, err
	}
	of, err := json.Marshal(other)
	return string(text) == string(of), err
}

// closure returns the names of c and of its dependencies. An image inside with the ref of the base is that image.
func (r *Recipes) closure(c *Component, base []*Component) map[string]bool {
	names := map[string]bool{}
	var add func(c *Component)
	add = func(c *Component) {
		names[c.Name] = true
		for _, need := range c.Needs() {
			of, ok := r.Get(need)
			if !ok || names[need] || of.Kind == KindImage && of.Ref == baseOf(base, need).Ref {
				continue
			}
			add(of)
		}
	}
	add(c)
	return names
}

// rename replaces the names of other components in c.
func (c *Component) rename(names map[string]string) {
	set := func(name *string) {
		if to, ok := names[*name]; ok {
			*name = to
		}
	}
	for _, name := range []*string{&c.Base, &c.Containerd, &c.Kubernetes} {
		set(name)
	}
	for i := range c.Contents {
		set(&c.Contents[i].From)
	}
	for i := range c.Preload {
		set(&c.Preload[i])
	}
}
