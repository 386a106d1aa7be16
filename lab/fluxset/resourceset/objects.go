package resourceset

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/render"
	"homelab/lab/sandbox"
	"homelab/lab/strict"
)

// maxObjects limits the objects of a set.
const maxObjects = 20_000

// add adds the objects that a template makes of inputs.
func (x *expansion) add(of source, in inputs) error {
	text, err := x.execute(of.Template, in.values("1000000001"))
	if unknown := (*unknownFunction)(nil); errors.As(err, &unknown) {
		x.note(x.at(of.node), "what %s makes is not known: it calls %s, whose result depends on the operator", of.path, unknown.name)
		return nil
	}
	if err != nil {
		return x.failed(of, err)
	}
	if in.by != "" {
		if again, err := x.execute(of.Template, in.values("2000000002")); err != nil || again != text {
			x.note(x.at(of.node), "what %s makes is not known: inputs.id depends on the UID of %s, which only a cluster assigns", of.path, in.by)
			return nil
		}
	}
	docs, problems := strict.Parse(x.File, []byte(text))
	for _, p := range problems {
		if !strings.HasPrefix(p.Message, "duplicate key ") { // the last one counts
			return x.failed(of, errors.New(p.Message))
		}
	}
	for _, n := range docs {
		if err := x.object(of, n); err != nil {
			return err
		}
	}
	return nil
}

func (x *expansion) object(of source, n *yaml.Node) error {
	for _, field := range []string{"apiVersion", "kind"} {
		if strict.Text(n, field) == "" {
			return x.fail(of.node, fmt.Sprintf("%s makes an object without %s", of.path, field), "")
		}
	}
	id := strings.Join([]string{strict.Text(n, "apiVersion"), strict.Text(n, "kind"), strict.Text(n, "metadata", "namespace"), strict.Text(n, "metadata", "name")}, " ")
	step, twice := x.seen[id]
	switch {
	case twice && step != of.step:
		return x.fail(of.node, fmt.Sprintf("%s is in the steps %s and %s", strict.Title(n), step, of.step), "leave it in one of them")
	case twice || disabled(n):
		return nil
	}
	x.seen[id] = of.step
	if of.single {
		render.Place(n, of.node)
	} else {
		render.Place(n, &yaml.Node{Line: of.node.Line})
	}
	x.common(n)
	x.references(n, of)
	x.objects = append(x.objects, render.Document{Node: n, File: x.File})
	if len(x.objects) > maxObjects {
		return x.failed(of, sandbox.Over("more than %d objects", maxObjects))
	}
	return nil
}

// common sets spec.commonMetadata, and the operator's own labels.
func (x *expansion) common(n *yaml.Node) {
	metadata := strict.Get(n, "metadata")
	if metadata == nil || metadata.Kind != yaml.MappingNode {
		metadata = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line}
		strict.Set(n, "metadata", metadata)
	}
	set := func(field, key, value string, line int) {
		pairs := strict.Get(metadata, field)
		if pairs == nil || pairs.Kind != yaml.MappingNode {
			pairs = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line}
			strict.Set(metadata, field, pairs)
		}
		strict.Set(pairs, key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, Line: line})
	}
	for _, field := range []string{"labels", "annotations"} {
		for key, value := range strict.Pairs(x.Node, "spec", "commonMetadata", field) {
			set(field, key.Value, value.Value, value.Line)
		}
	}
	for _, field := range []string{"name", "namespace"} {
		set("labels", owner+field, strict.Text(x.Node, "metadata", field), x.Line)
	}
}

// at returns the position of a node of the set.
func (s Set) at(n *yaml.Node) lab.Position {
	if n == nil || n.Line == 0 {
		return lab.Position{File: s.File, Line: s.Line}
	}
	return lab.Position{File: s.File, Line: n.Line}
}

// failed returns the error of a template, where it is written.
func (x *expansion) failed(of source, err error) error {
	message, line := explain(err)
	e := &render.Error{Problem: lab.Problem{Code: finding.InvalidFlux, Position: x.at(of.node), Message: fmt.Sprintf("%s: %s: %s", x.title(), of.path, message)}}
	var limit *sandbox.Limit
	e.Limit = errors.As(err, &limit)
	lines := strings.Split(of.text, "\n")
	switch {
	case line == 0 || line > len(lines):
	case !of.single && of.node.Style&yaml.LiteralStyle != 0:
		e.Line += line
	case of.single:
		for _, n := range strict.Scalars(of.node) {
			if strings.Contains(n.Value, "<<") && strings.Contains(lines[line-1], strings.TrimSpace(n.Value)) {
				e.Line = n.Line
				break
			}
		}
	}
	if strings.Contains(message, "map has no entry for key") {
		e.Cure = `add the input, or give a default: << get inputs "KEY" | default "VALUE" >>`
	}
	return e
}
