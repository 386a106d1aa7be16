package draft

import (
	"path"
	"testing/fstest"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// built returns the spec of a Kustomization after the patches of the kustomization in its synced or own folder.
func (d synced) built() *yaml.Node {
	for _, dir := range []string{d.syncs(), path.Dir(d.file)} {
		docs, _, err := render.Kustomization{FS: d.repo.FS, Path: dir}.Build()
		if err != nil {
			continue
		}
		if spec := specOf(docs, strict.Text(d.node, "metadata", "name")); spec != nil {
			return spec
		}
	}
	return strict.Get(d.node, "spec")
}

// instance returns the spec of a FluxInstance's Kustomization after the instance's patches, or nil without patches.
func (d synced) instance(name string) *yaml.Node {
	theirs := strict.Get(strict.Get(d.node, "kustomize"), "patches")
	if theirs == nil {
		return nil
	}
	var patches []any
	for _, p := range theirs.Content {
		var patch map[string]any
		if kind := strict.Text(p, "target", "kind"); p.Decode(&patch) == nil && (kind == "Kustomization" || kind == "") {
			patches = append(patches, patch)
		}
	}
	spec := reconcile(name, path.Clean(strict.Text(strict.Get(d.node, "sync"), "path")))
	const file = "sync.yaml"
	fsys := fstest.MapFS{file: {Data: []byte(fluxObject("kustomize.toolkit.fluxcd.io/v1", "Kustomization", name, spec))}}
	docs, _, err := render.Kustomization{FS: fsys, Spec: map[string]any{"patches": patches}}.Build()
	if err != nil {
		return nil
	}
	return specOf(docs, name)
}

func specOf(docs []render.Document, name string) *yaml.Node {
	for _, doc := range docs {
		s := &syncs{}
		s.add(&lab.Repository{}, "", doc.Node)
		if len(s.kustomizations) > 0 && strict.Text(doc.Node, "metadata", "name") == name {
			return strict.Get(doc.Node, "spec")
		}
	}
	return nil
}
