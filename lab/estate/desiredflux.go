package estate

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/desired"
	"homelab/lab/finding"
	"homelab/lab/flux"
	"homelab/lab/fluxset"
	"homelab/lab/provenance"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// wantFlux records a Kustomization as Flux will have it.
func (l *loader) wantFlux(g *lab.Generated, w fluxset.World, app fluxset.Application) {
	var manifest any
	if app.Manifest != nil {
		_ = app.Manifest.Decode(&manifest) // it was decoded before
	}
	home := l.estate.Hub().Name
	if l.estate.Hub().Engine.Everywhere() {
		home = g.Cluster
	}
	want := desired.App{Application: g.Application, Engine: lab.EngineFlux, At: g.At, Manifest: manifest, Layers: func() []desired.Layer { return layersOf(app) }}
	of := desired.Part{Cluster: cmp.Or(app.Remote, home), Render: func() ([]render.Document, error) {
		switch {
		case app.Elsewhere != "":
			return nil, absent(app.At, strings.TrimPrefix(app.Path+" of ", " of ")+app.Elsewhere, cureOf(app.Elsewhere))
		case app.Objects == nil && app.LeftOut != "":
			return nil, &render.Error{Problem: lab.Problem{Code: finding.LeftOut, Position: app.At, Message: app.LeftOut}}
		}
		return app.Objects, nil
	}}
	of.Subject = func() (provenance.Subject, error) {
		switch _, err := of.Render(); {
		case app.Set != nil && err == nil:
			return resourceSet(*app.Set), nil
		case err != nil || app.Place == nil:
			return provenance.Subject{}, err
		}
		return kustomization(app), nil
	}
	want.Parts = append(want.Parts, of)
	for _, r := range app.Releases {
		want.Parts = append(want.Parts, part(
			desired.Part{Name: r.Namespace + "/" + r.Name, Cluster: cmp.Or(r.Remote, home), Namespace: r.TargetNamespace}, func() made { return l.release(w, app, r) },
		))
	}
	l.apps = append(l.apps, want)
}

// layersOf returns the ConfigMaps and Secrets that a Kustomization and its HelmReleases take values from.
func layersOf(app fluxset.Application) []desired.Layer {
	var list []desired.Layer
	for _, r := range app.Reads {
		layer := desired.Layer{At: r.At, Entry: r.Name, Object: r.Kind + " " + r.Namespace + "/" + r.Name, Exists: r.Known || r.Late != nil, Optional: r.Optional}
		if r.Cluster != "" || !r.Variables && len(r.Keys) != 1 {
			continue
		}
		if !r.Variables {
			layer.Key = r.Keys[0].Name
		}
		list = append(list, layer)
	}
	return list
}

// kustomization is what a Kustomization is built from: files, its spec, and variables.
func kustomization(app fluxset.Application) provenance.Subject {
	k := app.Built
	k.Budget = nil
	variables := map[string]any{}
	for name, value := range k.Variables {
		variables[name] = value
	}
	return provenance.Subject{
		Options: map[string]any{"spec": k.Spec, "variables": variables},
		Name:    func(_, file string) string { return app.Place(file) },
		At: func(path []string) []lab.Position {
			if at, set := app.VariablesAt[path[len(path)-1]]; set && path[0] == "variables" {
				return []lab.Position{at}
			}
			return positions(app.Manifest, app.At.File, path)
		},
		Render: func(options map[string]any, open func(string, fs.FS) fs.FS) ([]render.Document, error) {
			k := k
			k.FS = open("", k.FS)
			if options != nil {
				k.Spec, _ = options["spec"].(map[string]any)
				if k.Variables != nil {
					k.Variables = map[string]string{}
				}
				changed, _ := options["variables"].(map[string]any)
				for name, value := range changed {
					k.Variables[name], _ = value.(string)
				}
			}
			docs, _, err := k.Build()
			for i := range docs {
				docs[i].File = app.Place(docs[i].File)
			}
			return docs, err
		},
	}
}

// positions returns the position of a path in a document, or none.
func positions(n *yaml.Node, file string, path []string) []lab.Position {
	var keys []any
	for _, key := range path {
		if i, err := strconv.Atoi(key); err == nil {
			keys = append(keys, i)
		} else {
			keys = append(keys, key)
		}
	}
	if n = strict.Get(n, keys...); n == nil || n.Line == 0 {
		return nil
	}
	return []lab.Position{{File: file, Line: n.Line}}
}

// ownCharts is the source of lab's own charts.
const ownCharts = "HelmRepository " + flux.Namespace + "/charts"

// chartOf returns the chart of a release that is in a chart repository.
func (l *loader) chartOf(r fluxset.Release) lab.ChartUse {
	use := lab.ChartUse{Name: r.Chart, Version: r.Version, Repository: r.URL, At: r.At}
	if use.Name == "" { // an OCIRepository
		use.Name = path.Base(r.URL)
		use.Repository = strings.TrimSuffix(r.URL, "/"+use.Name)
		use.Version = cmp.Or(r.Revision, "latest")
	}
	if r.Source == ownCharts {
		use.Repository = l.inputs().ChartRepoURL
	}
	return use
}

// unavailable is the error for a chart in Git that Flux, or only lab, does not have.
func unavailable(r fluxset.Release, err error) error {
	what := strings.TrimSuffix(r.Folder+" of "+r.URL, " of ")
	if known := new(fluxset.Absent); !errors.As(err, &known) || known.Why != "" {
		return &render.Error{Problem: lab.Problem{Code: finding.CannotRender, Position: r.At, Message: fmt.Sprintf("%s: %v", r.Source, err)}, Remote: what}
	}
	return absent(r.At, what, "")
}

// release returns how a HelmRelease is rendered.
func (l *loader) release(w fluxset.World, app fluxset.Application, r fluxset.Release) made {
	if r.Values == nil {
		return made{err: absent(r.At, "an object with values of "+r.Name, "only the cluster has it")}
	}
	if r.URL == "" && r.Source != ownCharts {
		return made{err: &render.Error{Problem: lab.Problem{Code: finding.CannotRender, Position: r.At, Message: "chart source " + r.Source + " does not exist"}, Remote: r.Source}}
	}
	m, use := made{}, lab.ChartUse{}
	if r.Folder == "" {
		use = l.chartOf(r)
		r.Folder = "."
		m = l.chartSource(use, func(files fs.FS) render.Source { return render.Source{FS: files} })
	} else {
		files, place, err := r.Files()
		if err != nil {
			return made{err: unavailable(r, err)}
		}
		m = made{Source: render.Source{FS: files}, name: func(_, file string) string { return place(file) }}
	}
	m.Path, m.as = r.Folder, &r
	m.digest = l.digests(func(string) string {
		return strings.Join([]string{use.Repository, use.Name, use.Version, r.Source, r.URL, r.Revision}, " ")
	}, func(string) fs.FS {
		if use.Name != "" {
			return nil
		}
		return m.FS
	})
	m.at = func(path []string) []lab.Position {
		i := slices.IndexFunc(app.Objects, r.Is)
		if i < 0 {
			return nil
		}
		return positions(app.Objects[i].Node, app.Objects[i].File, path)
	}
	m.values = sync.OnceValue(func() []valuesFile { return valueFiles(app, r) })
	return m
}
