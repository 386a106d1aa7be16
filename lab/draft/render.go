package draft

import (
	"io/fs"
	"path"

	"go.yaml.in/yaml/v3"

	"homelab/lab/appset"
	"homelab/lab/estate"
	"homelab/lab/render"
)

// deepest is how far charts may lead to charts.
const deepest = 5

// render adds what charts and kustomizations hold that Applications sync to the hub, and reports whether it found anything. What cannot be rendered here is told
// when the estate is read.
func (d *drafting) render() bool {
	found := false
	for _, doc := range d.docs {
		for _, app := range d.applications(doc) {
			if !estate.ToHub(d.estate, app) {
				continue
			}
			for _, source := range app.Spec.All() {
				r, ok := d.inputs().Mounted(source.RepoURL)
				if !ok || source.Chart != "" || source.Path == "" || !fs.ValidPath(path.Clean(source.Path)) {
					continue
				}
				key := doc.at.String() + " " + app.Metadata.Name + " " + source.Path
				if is := render.TypeOf(r.FS, source); is == render.Plain || is == render.Plugin || d.rendered[key] {
					continue
				}
				d.rendered[key] = true
				docs, err := render.Render(render.Source{
					FS: r.FS, Source: source, Application: app.Metadata.Name, Project: app.Spec.Project, Namespace: app.Spec.Destination.Namespace, Ref: d.ref(app),
				})
				if err != nil {
					continue
				}
				before := len(d.docs)
				for _, made := range docs {
					d.add(r, made.File, []*yaml.Node{made.Node}, doc)
				}
				found = found || len(d.docs) > before
			}
		}
	}
	return found
}

// ref finds the tree of a source that others of an Application refer to.
func (d *drafting) ref(app *appset.Template) func(string) fs.FS {
	return func(name string) fs.FS {
		for _, s := range app.Spec.All() {
			if r, ok := d.inputs().Mounted(s.RepoURL); ok && s.Ref == name {
				return r.FS
			}
		}
		return nil
	}
}

// applications are what a document is, or makes.
func (d *drafting) applications(doc *document) []*appset.Template {
	if doc.set == nil {
		return []*appset.Template{doc.app}
	}
	x, err := doc.set.Expand(d.world())
	if err != nil {
		return nil
	}
	var list []*appset.Template
	for i := range x.Applications {
		list = append(list, &x.Applications[i].Template)
	}
	return list
}
