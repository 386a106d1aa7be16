package draft

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/draft/manifest"
	"homelab/lab/fluxset"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// syncable returns a root of the repositories as Argo CD can sync it: automatically, and without objects that would keep it from syncing any.
func (d *drafting) syncable(doc *document) *yaml.Node {
	if doc.app == nil {
		return doc.node
	}
	node := &yaml.Node{}
	x := d.exclusions(doc)
	if len(x.patches)+len(x.files) == 0 && doc.app.Spec.Automated() || yaml.Unmarshal([]byte(manifest.Encode(doc.node)), node) != nil {
		return doc.node
	}
	if !doc.app.Spec.Automated() {
		automated := child(child(child(node.Content[0], "spec", yaml.MappingNode), "syncPolicy", yaml.MappingNode), "automated", yaml.MappingNode)
		automated.Content = manifest.Of("prune", true).Node.Content
		node.Content[0].HeadComment = "Upstream it is synced manually."
	}
	source := strict.Get(node.Content[0], "spec", "source")
	if len(x.patches) > 0 {
		list := child(child(source, "kustomize", yaml.MappingNode), "patches", yaml.SequenceNode)
		list.Content = append(list.Content, x.patches...)
	}
	if files := x.files; len(files) > 0 {
		directory := child(source, "directory", yaml.MappingNode)
		if before := strict.Text(directory, "exclude"); before != "" {
			files = append([]string{before}, files...)
		}
		exclude := child(directory, "exclude", yaml.ScalarNode)
		exclude.Value, exclude.LineComment = "{"+strings.Join(files, ",")+"}", "nothing defines the kinds"
	}
	return node.Content[0]
}

// child returns a field of a mapping, which it adds if necessary.
func child(of *yaml.Node, key string, kind yaml.Kind) *yaml.Node {
	n := strict.Get(of, key)
	if n == nil || n.Kind != kind {
		n = &yaml.Node{Kind: kind}
		strict.Set(of, key, n)
	}
	return n
}

// exclusions are what a root excludes, as nothing in its folder defines the kind.
type exclusions struct {
	patches []*yaml.Node // of a kustomization; they also delete the root's own copy, which has none
	files   []string     // of manifests
	left    []Left
}

func (d *drafting) exclusions(doc *document) exclusions {
	var x exclusions
	sources := d.foldersOf(doc.app)
	if doc.app.Spec.Source == nil || len(sources) == 0 {
		return x
	}
	source := sources[0]
	at, is := source.at(), source.rendersTo()
	if is != render.Kustomize && is != render.Plain {
		return x
	}
	objects, err := source.render()
	if err != nil {
		return x
	}
	_, defined := needs.Kinds(objects)
	undefined := func(o render.Document) bool {
		foreign, _ := needs.Kinds([]render.Document{o})
		return slices.ContainsFunc(foreign, func(kind string) bool { return !needs.IsEngines(kind) && !slices.Contains(defined, kind) })
	}
	kinds := map[string]bool{}
	for _, o := range objects {
		if undefined(o) {
			if of := strict.Text(o.Node, "apiVersion") + " " + strict.Text(o.Node, "kind"); !kinds[of] {
				kinds[of] = true
				x.patches = append(x.patches, without(o.Node, "", "nothing defines the kind"))
			}
			x.left = append(x.left, Left{At: lab.Position{File: path.Join(at.Dir, o.File), Line: o.Line}, Why: "nothing defines its kind"})
		}
	}
	if is == render.Plain {
		if x.patches, x.files = nil, undefinedFiles(path.Clean(source.Path), objects, undefined); len(x.files) == 0 {
			x.left = nil
		}
		return x
	}
	if len(x.patches) == 0 {
		return x
	}
	for _, o := range objects {
		if strict.Text(o.Node, "kind") == "Application" && strict.Text(o.Node, "metadata", "name") == doc.app.Metadata.Name {
			x.patches = append(x.patches, without(o.Node, doc.app.Metadata.Name, "this Application, without the patches"))
		}
	}
	return x
}

// undefinedFiles returns the files below dir with undefined objects, or none if one also has others.
func undefinedFiles(dir string, objects []render.Document, undefined func(render.Document) bool) []string {
	var files, others []string
	for _, o := range objects {
		list := &others
		if undefined(o) {
			list = &files
		}
		if name := strings.TrimPrefix(o.File, dir+"/"); !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	if slices.ContainsFunc(files, func(name string) bool { return slices.Contains(others, name) || strings.ContainsAny(name, `*?[]{},\!`) }) {
		return nil
	}
	return files
}

// without returns a patch that deletes the objects of o's kind, or the one with a name.
func without(o *yaml.Node, name, why string) *yaml.Node {
	group, version, found := strings.Cut(strict.Text(o, "apiVersion"), "/")
	if !found {
		group, version = "", group
	}
	target := manifest.Mapping{}
	if group != "" {
		target.Add("group", group)
	}
	target.Add("version", version)
	target.Add("kind", strict.Text(o, "kind"))
	if name != "" {
		target.Add("name", regexp.QuoteMeta(name))
	}
	m := manifest.Of("target", &target, "patch", fluxset.Deleted)
	m.Node.HeadComment = why
	return &m.Node
}
