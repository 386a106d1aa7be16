package estate

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/desired"
	"homelab/lab/flux"
	"homelab/lab/fluxset"
	"homelab/lab/render"
)

// WithChartFiles opens charts of chart repositories, without network. An error is the reason why one cannot be read.
func WithChartFiles(open func(lab.ChartUse) (fs.FS, error)) Option {
	return func(l *loader) { l.openChart = open }
}

// Desired is Load, and also returns what the engine will have, in the order of Estate.Applications.
func Desired(fsys fs.FS, dir, name string, options ...Option) (*lab.Estate, []desired.App, error) {
	l, err := readAll(fsys, dir, name, options)
	if err != nil {
		return nil, nil, err
	}
	apps := make([]desired.App, 0, len(l.estate.Applications))
	for _, g := range l.estate.Applications {
		app := desired.App{At: g.At}
		if i := slices.IndexFunc(l.apps, func(a desired.App) bool { return a.Name == g.Name }); i >= 0 {
			app = l.apps[i]
		}
		app.Application = g.Application
		apps = append(apps, app)
	}
	return l.estate, apps, nil
}

// want records an Application as Argo CD will have it.
func (l *loader) want(g *lab.Generated, app *appset.Template) {
	of := *app
	of.Metadata.Namespace = NamespaceOf(l.estate)
	manifest := struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		appset.Template
	}{argo.Group + "v1alpha1", "Application", of}
	want := desired.App{Application: g.Application, At: g.At, Manifest: manifest, Last: true}
	c, _ := l.estate.Cluster(g.Cluster)
	namespace := app.Spec.Destination.Namespace
	for _, source := range app.Spec.All() {
		switch {
		case source.Chart != "":
			use := lab.ChartUse{Name: source.Chart, Version: source.TargetRevision, Repository: source.RepoURL, At: g.At}
			want.Parts = append(want.Parts, desired.Part{Cluster: g.Cluster, Namespace: namespace, Render: func() ([]render.Document, error) {
				return l.renderChart(use, func(files fs.FS) render.Source {
					from := l.sourceOf(files, app, source)
					from.KubeVersion, from.Path = kubeVersion(c), "."
					return from
				})
			}})
		case source.Path != "":
			want.Parts = append(want.Parts, desired.Part{Cluster: g.Cluster, Namespace: namespace, Render: func() ([]render.Document, error) {
				r, ours := l.source(source.RepoURL)
				if !ours {
					return nil, absent(g.At, source.Path+" of "+source.RepoURL, "mount a clone of it: spec.repositories of the hub")
				}
				if why := l.unreadableSource(source.RepoURL, source.TargetRevision); why != "" {
					return nil, absent(g.At, source.Path+" of "+source.RepoURL, why)
				}
				from := l.sourceOf(l.tree(r, source.TargetRevision), app, source)
				from.KubeVersion = kubeVersion(c)
				docs, err := rendered(from)
				return fromRepository(r, docs), err
			}})
		}
	}
	l.apps = append(l.apps, want)
}

// wantFlux records a Kustomization as Flux will have it.
func (l *loader) wantFlux(g *lab.Generated, w fluxset.World, app fluxset.Application) {
	var manifest any
	if app.Manifest != nil {
		_ = app.Manifest.Decode(&manifest) // it was decoded before
	}
	want := desired.App{Application: g.Application, At: g.At, Manifest: manifest}
	home := l.estate.Hub().Name
	if l.estate.Hub().Engine.Everywhere() {
		home = g.Cluster
	}
	want.Parts = append(want.Parts, desired.Part{Cluster: cmp.Or(app.Remote, home), Render: func() ([]render.Document, error) {
		switch {
		case app.Elsewhere != "":
			return nil, absent(app.At, app.Path+" of "+app.Elsewhere, "mount a clone of it: spec.repositories of the hub")
		case app.Objects == nil && app.LeftOut != "":
			return nil, &render.Error{Problem: lab.Problem{Position: app.At, Message: app.LeftOut}}
		}
		return app.Objects, nil
	}})
	for _, r := range app.Releases {
		want.Parts = append(want.Parts, desired.Part{Name: r.Namespace + "/" + r.Name, Cluster: cmp.Or(r.Remote, home), Namespace: r.TargetNamespace, Render: func() ([]render.Document, error) { return l.renderRelease(w, r) }})
	}
	l.apps = append(l.apps, want)
}

// renderRelease returns the objects of a HelmRelease.
func (l *loader) renderRelease(w fluxset.World, r fluxset.Release) ([]render.Document, error) {
	if r.Values == nil {
		return nil, absent(r.At, "its values", "some are known to the cluster alone")
	}
	values, err := json.Marshal(r.Values)
	if err != nil {
		return nil, err
	}
	of := func(files fs.FS, folder string) render.Source {
		return render.Source{
			FS: files, Application: r.Name, Namespace: r.TargetNamespace,
			Source: appset.Source{Path: folder, Helm: &appset.Helm{ReleaseName: r.Name, ValuesObject: &runtime.RawExtension{Raw: values}}},
		}
	}
	if r.Folder == "" {
		use := lab.ChartUse{Name: r.Chart, Version: r.Version, Repository: r.URL, At: r.At}
		if r.Source == "HelmRepository "+flux.Namespace+"/charts" {
			use.Repository = l.inputs().ChartRepoURL
		}
		return l.renderChart(use, func(files fs.FS) render.Source { return of(files, ".") })
	}
	files, _, err := w.Repository(r.URL, r.Revision)
	if err != nil {
		return nil, absent(r.At, r.Folder+" of "+r.URL, err.Error())
	}
	if r.Defaults != nil {
		defaults, err := json.Marshal(r.Defaults)
		if err != nil {
			return nil, err
		}
		files = replaced{files, path.Join(r.Folder, "values.yaml"), defaults}
	}
	return rendered(of(files, r.Folder))
}

// renderChart renders a chart of a chart repository. Its files are named NAME-VERSION/...
func (l *loader) renderChart(use lab.ChartUse, of func(fs.FS) render.Source) ([]render.Document, error) {
	title := strings.TrimSpace("chart " + use.Name + " " + use.Version)
	if use.Repository == l.inputs().ChartRepoURL {
		use.Repository = ""
	}
	if l.openChart == nil {
		return nil, absent(use.At, title, "")
	}
	files, err := l.openChart(use)
	if err != nil {
		return nil, absent(use.At, title, err.Error())
	}
	docs, err := rendered(of(files))
	within := use.Name + "-" + use.Version
	for i := range docs {
		docs[i].File = path.Join(within, docs[i].File)
	}
	if known := new(render.Error); errors.As(err, &known) {
		e := *known
		e.File = path.Join(within, e.File)
		err = &e
	}
	return docs, err
}

// absent is the error for what is not on this machine.
func absent(at lab.Position, what, why string) error {
	message := what + " is not on this machine"
	if why != "" {
		message += ": " + why
	}
	return &render.Error{Problem: lab.Problem{Position: at, Message: message}, Remote: what}
}

// rendered returns the objects that a source renders to. Its budget is its own, as it may be one of thousands.
func rendered(from render.Source) ([]render.Document, error) {
	from.Budget = nil
	return render.Render(from)
}

// fromRepository names the files of documents as lab does.
func fromRepository(r *lab.Repository, docs []render.Document) []render.Document {
	for i := range docs {
		docs[i].File = within(r, docs[i].File)
	}
	return docs
}
