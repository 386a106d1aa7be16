package draft

import (
	"fmt"
	"io/fs"
	"path"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab"
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
	before := len(d.docs) + len(d.secrets)
	for _, doc := range d.docs {
		for _, app := range d.applications(doc) {
			if !estate.ToHub(d.estate, app) {
				continue
			}
			for _, source := range d.foldersOf(app) {
				at, is := source.at(), source.rendersTo()
				key := doc.at.String() + " " + app.Metadata.Name + " " + source.Path
				if is == "" || is == render.Plugin || d.rendered[key] {
					continue
				}
				d.rendered[key] = true
				docs, err := source.render()
				if err != nil {
					continue
				}
				for _, made := range docs {
					if is != render.Plain || path.Ext(made.File) == ".jsonnet" { // others are scanned
						d.add(at, made.File, strict.Items(made.Node), doc)
					}
				}
			}
		}
	}
	return len(d.docs)+len(d.secrets) > before
}

// folderSource is a folder of a repository that is a source of an Application.
type folderSource struct {
	appset.Source
	repo *lab.Repository
	app  *appset.Template
	ref  func(string) fs.FS
}

// foldersOf returns the sources of an Application that are folders of the repositories.
func (d *drafting) foldersOf(app *appset.Template) []folderSource {
	var list []folderSource
	for _, s := range app.Spec.All() {
		if r, ok := d.inputs().Mounted(s.RepoURL); ok && s.Chart == "" && s.Path != "" {
			list = append(list, folderSource{s, r, app, d.ref(app)})
		}
	}
	return list
}

// at returns the repository at the revision of a source, or nil.
func (s folderSource) at() *lab.Repository {
	at, err := s.repo.Of(s.TargetRevision)
	if err != nil || !fs.ValidPath(path.Clean(s.Path)) {
		return nil // reported when the estate is loaded
	}
	return at
}

// rendersTo returns the type of a source, or "" without its revision.
func (s folderSource) rendersTo() render.Type {
	if at := s.at(); at != nil {
		return render.TypeOf(at.FS, s.Source)
	}
	return ""
}

// render renders a source, whose revision exists.
func (s folderSource) render() ([]render.Document, error) {
	return render.Render(render.Source{
		FS: s.at().FS, Source: s.Source, Application: s.app.Metadata.Name, Project: s.app.Spec.Project, Namespace: s.app.Spec.Destination.Namespace, Ref: s.ref,
	})
}

// ref resolves the named sources of an Application.
func (d *drafting) ref(app *appset.Template) func(string) fs.FS {
	return func(name string) fs.FS {
		s, _ := app.Spec.Ref(name)
		if r, ok := d.inputs().Mounted(s.RepoURL); ok {
			if at, err := r.Of(s.TargetRevision); err == nil {
				return at.FS
			}
		}
		return nil
	}
}

// applications returns the Applications that a document is or generates.
func (d *drafting) applications(doc *document) []*appset.Template {
	return d.expand(doc, d.world()).applications
}

// expanded is what a document generates and selects for certain clusters. Generators may read every file of a repository.
type expanded struct {
	appset.Expansion
	of           string
	applications []*appset.Template
	selectors    []metav1.LabelSelector
	err          error
}

// expand returns what a document generates and selects.
func (d *drafting) expand(doc *document, w appset.World) expanded {
	if doc.set == nil {
		return expanded{applications: []*appset.Template{doc.app}}
	}
	of := fmt.Sprint(w.Namespace, w.Clusters)
	if known := d.expanded[doc]; known.of == of {
		return known
	}
	now := expanded{of: of, selectors: doc.set.Asked(w)}
	var x *appset.Expansion
	if x, now.err = doc.set.Expand(w); now.err == nil {
		now.Expansion = *x
	}
	for i := range now.Applications {
		now.applications = append(now.applications, &now.Applications[i].Template)
	}
	d.expanded[doc] = now
	return now
}
