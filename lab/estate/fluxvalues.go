package estate

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/fluxset"
	"homelab/lab/provenance"
	"homelab/lab/render"
)

// valuesTree is the tree of the files that Kustomizations make values of; refs have no slash.
const valuesTree = "values/"

// valuesFile is a file that a Kustomization puts into a ConfigMap or Secret as it is.
type valuesFile struct {
	from int // index of the entry of spec.valuesFrom
	fs.FS
	name  string
	place func(string) string // its name for users
}

// valueFiles returns the files that a release's values come from: those that its Kustomization reads, and that have exactly the text of an entry.
func valueFiles(app fluxset.Application, r fluxset.Release) (list []valuesFile) {
	k := app.Built
	if k.FS == nil || len(r.From) == 0 {
		return nil
	}
	read := map[string]bool{}
	k.FS, k.Budget, k.Note = provenance.Watch(app.Built.FS, read, nil), nil, nil
	if _, _, err := k.Build(); err != nil {
		return nil
	}
	with := map[string][]string{} // by text
	for name := range read {
		if data, err := fs.ReadFile(app.Built.FS, name); err == nil {
			with[string(data)] = append(with[string(data)], name)
		}
	}
	for i, f := range r.From {
		if names := with[f.Text]; f.TargetPath == "" && len(names) == 1 {
			list = append(list, valuesFile{i, app.Built.FS, names[0], app.Place})
		}
	}
	return list
}

// releaseSubject is what a HelmRelease is rendered from: its chart, files of values, and what its manifest and other objects have.
func (m made) releaseSubject() provenance.Subject {
	files := m.values()
	isFile := func(i int) int { return slices.IndexFunc(files, func(f valuesFile) bool { return f.from == i }) }
	var others []any
	for i, f := range m.as.From {
		var layer map[string]any
		if isFile(i) < 0 {
			layer, _ = fluxset.Values([]fluxset.ValuesFrom{f}, nil) // they were merged before
		}
		others = append(others, layer)
	}
	layers := m.Source.Layers()
	for _, f := range files {
		layers = append(layers, render.Layer{Ref: valuesTree, File: f.name})
	}
	spec := map[string]any{"values": m.as.Inline, "valuesFrom": others}
	if after := m.as.PostRenderers(); after != nil {
		spec["postRenderers"] = after
	}
	return provenance.Subject{
		Options: map[string]any{"spec": spec}, Layers: layers, ValuesAt: "spec.values.",
		At: func(path []string) []lab.Position {
			if at := m.at(path); len(at) > 0 || len(path) < 3 || path[1] != "valuesFrom" {
				return at
			}
			return m.at(path[:3]) // the entry
		},
		Name: func(tree, file string) string {
			if tree == valuesTree && len(files) > 0 {
				return files[0].place(file)
			}
			return m.name(tree, file)
		},
		Render: func(options map[string]any, open func(string, fs.FS) fs.FS) ([]render.Document, error) {
			s, r := m.Source, *m.as
			s.FS = open("", s.FS)
			r.From = slices.Clone(r.From)
			spec, _ := options["spec"].(map[string]any)
			if spec != nil {
				r.Inline, _ = spec["values"].(map[string]any)
				var err error
				if r, err = r.WithPostRenderers(spec["postRenderers"]); err != nil {
					return nil, err
				}
			}
			changed, _ := spec["valuesFrom"].([]any)
			for i := range r.From {
				if n := isFile(i); n >= 0 {
					data, err := fs.ReadFile(open(valuesTree, files[n].FS), files[n].name)
					if err != nil {
						return nil, err
					}
					r.From[i].Text = string(data)
				} else if i < len(changed) {
					if layer, _ := changed[i].(map[string]any); len(layer) > 0 && !reflect.DeepEqual(layer, others[i]) {
						text, err := json.Marshal(layer)
						if err != nil {
							return nil, err
						}
						r.From[i].Text, r.From[i].TargetPath = string(text), ""
					}
				}
			}
			values, err := fluxset.Values(r.From, r.Inline)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", strings.TrimSpace("values of "+r.Name), err)
			}
			r.Values = values
			n := m
			n.as = &r
			return n.render(s)
		},
	}
}
