package draft

import (
	"fmt"
	"io/fs"
	"path"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab/appset"
	"homelab/lab/estate"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// deepest limits the nesting of charts that generate Applications of charts.
const deepest = 5

// render adds the content of charts and kustomizations that Applications sync to the hub, and reports whether there was
// any. Rendering errors are reported when the estate is loaded.
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
				at, err := r.Of(source.TargetRevision)
				if err != nil {
					continue // reported when the estate is loaded
				}
				key := doc.at.String() + " " + app.Metadata.Name + " " + source.Path
				is := render.TypeOf(at.FS, source)
				if is == render.Plugin || d.rendered[key] {
					continue
				}
				d.rendered[key] = true
				docs, err := render.Render(render.Source{
					FS: at.FS, Source: source, Application: app.Metadata.Name, Project: app.Spec.Project, Namespace: app.Spec.Destination.Namespace, Ref: d.ref(app),
				})
				if err != nil {
					continue
				}
				before := len(d.docs)
				for _, made := range docs {
					if is == render.Plain && path.Ext(made.File) != ".jsonnet" {
						continue // scanned
					}
					d.add(at, made.File, strict.Items(made.Node), doc)
				}
				found = found || len(d.docs) > before
			}
		}
	}
	return found
}

// ref resolves the named sources of an Application.
func (d *drafting) ref(app *appset.Template) func(string) fs.FS {
	return func(name string) fs.FS {
		for _, s := range app.Spec.All() {
			if r, ok := d.inputs().Mounted(s.RepoURL); ok && s.Ref == name {
				if at, err := r.Of(s.TargetRevision); err == nil {
					return at.FS
				}
			}
		}
		return nil
	}
}

// applications returns the Applications that a document is or generates.
func (d *drafting) applications(doc *document) []*appset.Template {
	if doc.set == nil {
		return []*appset.Template{doc.app}
	}
	return d.set(doc, d.world()).applications
}

// expanded are the Applications and the selectors of a set for certain clusters. Generators may read every file of a repository.
type expanded struct {
	of           string
	applications []*appset.Template
	selectors    []metav1.LabelSelector
}

// set returns what a set generates and selects.
func (d *drafting) set(doc *document, w appset.World) expanded {
	of := fmt.Sprint(w.Namespace, w.Clusters)
	if known := d.expanded[doc]; known.of == of {
		return known
	}
	now := expanded{of: of, selectors: doc.set.Asked(w)}
	if x, err := doc.set.Expand(w); err == nil {
		for i := range x.Applications {
			now.applications = append(now.applications, &x.Applications[i].Template)
		}
	}
	d.expanded[doc] = now
	return now
}
