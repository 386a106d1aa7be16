package draft

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab/render"
	"homelab/lab/strict"
)

// syncable returns a root of the repositories as Argo CD can sync it: automatically, and without objects that would keep it from syncing any.
func (d *drafting) syncable(doc *document) *yaml.Node {
	if doc.app == nil {
		return doc.node
	}
	node, patches := &yaml.Node{}, d.exclusions(doc)
	if len(patches) == 0 && doc.app.Spec.Automated() || yaml.Unmarshal([]byte(encoded(doc.node)), node) != nil {
		return doc.node
	}
	if !doc.app.Spec.Automated() {
		automated := child(child(child(node.Content[0], "spec", yaml.MappingNode), "syncPolicy", yaml.MappingNode), "automated", yaml.MappingNode)
		automated.Content = plain("prune", true).node.Content
		node.Content[0].HeadComment = "Upstream it is synced manually."
	}
	if len(patches) > 0 {
		list := child(child(strict.Get(node.Content[0], "spec", "source"), "kustomize", yaml.MappingNode), "patches", yaml.SequenceNode)
		list.Content = append(list.Content, patches...)
	}
	return node.Content[0]
}

// child returns a field of a mapping, which it adds if necessary.
func child(of *yaml.Node, key string, kind yaml.Kind) *yaml.Node {
	n := strict.Get(of, key)
	if n == nil || n.Kind != kind {
		n = &yaml.Node{Kind: kind}
		if i := slices.IndexFunc(of.Content, func(c *yaml.Node) bool { return c.Value == key }); i >= 0 && i%2 == 0 {
			of.Content[i+1] = n
		} else {
			of.Content = append(of.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, n)
		}
	}
	return n
}

// exclusions returns patches for a root in a kustomization with kinds that nothing in it defines: without their objects, and without the root's own copy, which has no patches.
func (d *drafting) exclusions(doc *document) []*yaml.Node {
	if doc.app.Spec.Source == nil {
		return nil
	}
	source := *doc.app.Spec.Source
	r, mounted := d.inputs().Mounted(source.RepoURL)
	if !mounted {
		return nil
	}
	at, err := r.Of(source.TargetRevision)
	if err != nil || render.TypeOf(at.FS, source) != render.Kustomize {
		return nil
	}
	objects, err := render.Render(render.Source{
		FS: at.FS, Source: source, Application: doc.app.Metadata.Name, Project: doc.app.Spec.Project, Namespace: doc.app.Spec.Destination.Namespace, Ref: d.ref(doc.app),
	})
	if err != nil {
		return nil
	}
	var patches []*yaml.Node
	_, defined := render.Kinds(objects)
	for _, o := range objects {
		foreign, _ := render.Kinds([]render.Document{o})
		if slices.ContainsFunc(foreign, func(kind string) bool { return !render.IsEngines(kind) && !slices.Contains(defined, kind) }) {
			patches = append(patches, without(o.Node, "nothing defines the kind"))
		}
	}
	if len(patches) == 0 {
		return nil
	}
	for _, o := range objects {
		if strict.Text(o.Node, "kind") == "Application" && strict.Text(o.Node, "metadata", "name") == doc.app.Metadata.Name {
			patches = append(patches, without(o.Node, "this Application, without the patches"))
		}
	}
	return patches
}

// without returns a patch that deletes an object.
func without(o *yaml.Node, why string) *yaml.Node {
	group, version, found := strings.Cut(strict.Text(o, "apiVersion"), "/")
	if !found {
		group, version = "", group
	}
	kind, name := strict.Text(o, "kind"), strict.Text(o, "metadata", "name")
	target := mapping{}
	if group != "" {
		target.add("group", group)
	}
	target.add("version", version)
	target.add("kind", kind)
	target.add("name", name)
	object := mapping{}
	object.add("$patch", "delete")
	object.add("apiVersion", strict.Text(o, "apiVersion"))
	object.add("kind", kind)
	object.add("metadata", plain("name", name))
	m := mapping{}
	m.add("target", &target)
	m.add("patch", encoded(&object.node))
	m.node.HeadComment = why
	return &m.node
}
