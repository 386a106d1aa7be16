package chainsaw

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab/fieldpath"
	"homelab/lab/strict"
)

func (i *importer) apply(title string, op *yaml.Node) {
	list := i.resources(op)
	if len(list) == 0 {
		return
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	for _, n := range list {
		if err := e.Encode(n); err != nil {
			i.fail(n, err.Error(), "")
			return
		}
	}
	name := fmt.Sprintf("%02d.yaml", len(i.steps))
	i.out[name] = b.Bytes()
	i.add(title+": apply "+named(list), "apply", map[string]any{"cluster": i.Cluster, "file": name})
}

// named lists objects.
func named(list []*yaml.Node) string {
	var names []string
	for _, n := range list {
		names = append(names, strict.Title(n))
	}
	return strings.Join(names, ", ")
}

// reference returns how a scenario names an object.
func (i *importer) reference(n *yaml.Node) map[string]any {
	ref := map[string]any{"cluster": i.Cluster, "apiVersion": cmp.Or(strict.Text(n, "apiVersion"), "v1"), "kind": strict.Text(n, "kind"), "name": strict.Text(n, "metadata", "name")}
	if ns := strict.Text(n, "metadata", "namespace"); ns != "" {
		ref["namespace"] = ns
	}
	return ref
}

// fields returns what an object has besides its identity.
func (i *importer) fields(n *yaml.Node) map[string]any {
	var object map[string]any
	if err := n.Decode(&object); err != nil {
		i.fail(n, err.Error(), "")
		return nil
	}
	delete(object, "apiVersion")
	delete(object, "kind")
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "name")
		if delete(metadata, "namespace"); len(metadata) == 0 {
			delete(object, "metadata")
		}
	}
	return object
}

// leaves adds the values of nested mappings by their paths.
func leaves(in map[string]any, keys []string, to map[string]any) {
	for key, value := range in {
		at := append(slices.Clone(keys), key)
		if m, ok := value.(map[string]any); ok && len(m) > 0 {
			leaves(m, at, to)
			continue
		}
		to[fieldpath.Of(at...).String()] = value
	}
}

func (i *importer) patch(title string, op *yaml.Node) {
	for _, n := range i.resources(op) {
		set := map[string]any{}
		leaves(i.fields(n), nil, set)
		action := i.reference(n)
		action["set"] = set
		i.add(title+": patch "+strict.Title(n), "patch", action)
	}
}

func (i *importer) remove(title string, op *yaml.Node) {
	var list []*yaml.Node
	if ref := strict.Get(op, "ref"); ref != nil {
		i.expressions(ref)
		name, kind := strict.Text(ref, "name"), strict.Text(ref, "kind")
		if name == "" || kind == "" {
			i.fail(ref, "a reference without kind or name: a scenario does not look for objects by their labels", "name the object")
			return
		}
		n := &yaml.Node{}
		metadata := map[string]any{"name": name}
		if ns := strict.Text(ref, "namespace"); ns != "" {
			metadata["namespace"] = ns
		}
		if err := n.Encode(map[string]any{"apiVersion": cmp.Or(strict.Text(ref, "apiVersion"), "v1"), "kind": kind, "metadata": metadata}); err != nil {
			i.fail(ref, err.Error(), "")
			return
		}
		list = i.checked(n)
	} else {
		list = i.resources(op)
	}
	for _, n := range list {
		i.add(title+": delete "+strict.Title(n), "delete", i.reference(n))
		i.add(title+": "+strict.Title(n)+" is gone", "expect", map[string]any{"object": i.reference(n), "absent": true, "within": i.within("delete", op)})
	}
}

// within returns the timeout of an operation.
func (i *importer) within(kind string, op *yaml.Node) string {
	return cmp.Or(strict.Text(op, "timeout"), strict.Text(i.spec, "timeouts", kind), timeouts[kind].String())
}

func (i *importer) expect(title, kind string, op *yaml.Node) {
	var that []any
	list := i.resources(op)
	for _, n := range list {
		fields := i.fields(n)
		switch one := map[string]any{"object": i.reference(n)}; {
		case kind == "assert" && len(fields) == 0:
			that = append(that, one)
		case kind == "assert":
			one["has"] = fields
			that = append(that, one)
		case len(fields) == 0:
			one["absent"] = true
			that = append(that, one)
		default:
			each := map[string]any{}
			leaves(fields, nil, each)
			if len(each) > 1 {
				i.fail(n, fmt.Sprintf("an error of %d fields is not imported: %s", len(each), strings.Join(slices.Sorted(maps.Keys(each)), ", ")), "keep the one that differs")
				continue
			}
			for at, value := range each {
				each[at] = map[string]any{"not": value}
			}
			one["has"] = each
			that = append(that, one)
		}
	}
	if len(that) > 0 {
		i.add(title+": "+kind+" "+named(list), "expect", map[string]any{"that": that, "within": i.within(kind, op)})
	}
}

func (i *importer) wait(title string, op *yaml.Node) {
	n := &yaml.Node{}
	metadata := map[string]any{}
	for _, field := range []string{"name", "namespace"} {
		if text := strict.Text(op, field); text != "" {
			metadata[field] = text
		}
	}
	if err := n.Encode(map[string]any{"apiVersion": strict.Text(op, "apiVersion"), "kind": strict.Text(op, "kind"), "metadata": metadata}); err != nil {
		i.fail(op, err.Error(), "")
		return
	}
	n.Line, n.Column = op.Line, op.Column
	checked := i.checked(n)
	if len(checked) == 0 {
		return
	}
	one := map[string]any{"object": i.reference(checked[0])}
	of := strict.Get(op, "for")
	switch {
	case strict.Get(of, "deletion") != nil:
		one["absent"] = true
	case strict.Get(of, "condition") != nil:
		status := cmp.Or(strict.Text(of, "condition", "value"), "true")
		at := fmt.Sprintf("status.conditions[type=%s].status", strict.Text(of, "condition", "name"))
		one["has"] = map[string]any{at: strings.ToUpper(status[:1]) + status[1:]}
	case strict.Get(of, "jsonPath") != nil:
		at := strings.TrimPrefix(strings.Trim(strict.Text(of, "jsonPath", "path"), "{}"), ".")
		if _, err := fieldpath.Parse(at); err != nil {
			i.fail(of, "for.jsonPath.path is not imported: "+err.Error(), "write it as a path: docs/scenarios.md")
			return
		}
		var value any
		if n := strict.Get(of, "jsonPath", "value"); n == nil || n.Decode(&value) != nil {
			i.fail(of, "for.jsonPath without a value", "")
			return
		}
		one["has"] = map[string]any{at: value}
	default:
		i.fail(op, "wait without for.deletion, for.condition or for.jsonPath", "")
		return
	}
	one["within"] = cmp.Or(strict.Text(op, "timeout"), timeouts["assert"].String())
	i.add(title+": wait for "+strict.Title(checked[0]), "expect", one)
}
