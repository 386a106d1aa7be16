package estate

import (
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/desired"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// WithChartFiles opens charts of chart repositories, without network. An error is the reason why one cannot be read.
func WithChartFiles(open func(lab.ChartUse) (lab.ChartFiles, error)) Option {
	return func(l *loader) { l.openChart = open }
}

// Desired is Load, and also returns what the engine will have, in the order of Estate.Applications.
func Desired(fsys fs.FS, dir, name string, options ...Option) (*lab.Estate, []desired.App, error) {
	m, err := Read(fsys, dir, name, options...)
	return m.Estate, m.Apps, err
}

// Inspect is Desired for an estate that may be invalid: it returns the problems for which Load refuses it, and what is known nevertheless.
func Inspect(fsys fs.FS, dir, name string, options ...Option) (*lab.Estate, []desired.App, lab.Problems, error) {
	l, err := inspect(fsys, dir, name, options)
	if err != nil {
		return nil, nil, nil, err
	}
	return l.estate, l.wanted(), distinct(l.problems), nil
}

// wanted returns what the engine will have, in the order of Estate.Applications.
func (l *loader) wanted() []desired.App {
	apps := make([]desired.App, 0, len(l.estate.Applications))
	of := map[string]desired.App{}
	for _, app := range l.apps {
		of[app.Name] = app
	}
	for _, g := range l.estate.Applications {
		app, known := of[g.Name]
		if !known {
			app.At = g.At
		}
		app.Application = g.Application
		apps = append(apps, app)
	}
	return apps
}

// want records an Application as Argo CD will have it. at returns the positions of a field of a source, what set it last.
func (l *loader) want(g *lab.Generated, app *appset.Template, at func(source int, path []string) []lab.Position) {
	of := *app
	of.Metadata.Namespace = NamespaceOf(l.estate)
	manifest := struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		appset.Template
	}{argo.Group + "v1alpha1", "Application", of}
	want := desired.App{Application: g.Application, Engine: lab.EngineArgoCD, At: g.At, Manifest: manifest, Last: true}
	c, _ := l.estate.Cluster(g.Cluster)
	var layers []func() []desired.Layer
	for i, source := range app.Spec.All() {
		if source.Chart == "" && source.Path == "" {
			continue
		}
		of := sync.OnceValue(func() made {
			m := l.sourceFor(want.At, app, source, kubeVersion(c))
			m.at = func(path []string) []lab.Position { return at(i, path) }
			return m
		})
		layers = append(layers, func() []desired.Layer { return of().layers() })
		want.Parts = append(want.Parts, part(desired.Part{Cluster: g.Cluster, Namespace: app.Spec.Destination.Namespace}, of))
	}
	want.Layers = func() []desired.Layer {
		var list []desired.Layer
		for _, of := range layers {
			list = append(list, of()...)
		}
		return list
	}
	l.apps = append(l.apps, want)
}

// layers returns the entries of an Application's value files.
func (m made) layers() []desired.Layer {
	var list []desired.Layer
	for i, e := range m.Entries() {
		layer := desired.Layer{Entry: m.Helm.ValueFiles[i], File: m.name(e.Ref, e.File), Exists: len(e.Found) > 0, Optional: m.Helm.IgnoreMissingValueFiles}
		if at := m.at([]string{"helm", "valueFiles", strconv.Itoa(i)}); len(at) > 0 {
			layer.At = at[0]
			list = append(list, layer)
		}
	}
	return list
}

// origins returns the positions of a field of a source, and of what set it.
func (l *loader) origins(app *appset.Application, source int, path []string) []lab.Position {
	var at []lab.Position
	for _, o := range app.Origins(partField(&app.Template, source, path)...) {
		at = append(at, o.Position)
		if bridged := l.bridgedAt(o); bridged.File != "" {
			at = append(at, bridged)
		}
	}
	return at
}

// partField returns the path of a field of a source, or of the destination.
func partField(app *appset.Template, source int, path []string) []string {
	if path[0] == ofDestination {
		return append([]string{"spec"}, path...)
	}
	return sourceField(app, source, path...)
}

// position returns the position of a field of a source, or that of the Application if it was rendered.
func (p plainApplication) position(source int, path []string) lab.Position {
	n := p.doc
	for _, step := range partField(p.Template, source, path) {
		if i, err := strconv.Atoi(step); err == nil && n != nil && n.Kind == yaml.SequenceNode {
			n = strict.Get(n, i)
		} else {
			n = strict.Get(n, step)
		}
	}
	if n == nil {
		return p.at
	}
	return strict.Position(p.file, n)
}

// bridgedAt returns the position of the label or annotation of a registration that a parameter has, or none.
func (l *loader) bridgedAt(o appset.Origin) lab.Position {
	c, ok := l.estate.Cluster(o.Cluster)
	if !ok || o.Label == "" && o.Annotation == "" {
		return lab.Position{}
	}
	reg := l.registered(c)
	if o.Label != "" {
		return reg.Labels[o.Label].At
	}
	return reg.Annotations[o.Annotation].At
}

// cureOf returns what makes a repository readable here, or why it cannot be.
func cureOf(address string) string {
	if strings.HasPrefix(address, "oci://") {
		return "lab reads no artifacts of registries"
	}
	if _, err := lab.HostOf(address); err != nil && !errors.Is(err, lab.ErrSSH) {
		return err.Error()
	}
	return "mount a clone of it: spec.repositories of the hub"
}

// sourceFor returns how a source of an Application is rendered.
func (l *loader) sourceFor(at lab.Position, app *appset.Template, source appset.Source, kubeVersion string) made {
	r, ours := l.source(source.RepoURL)
	charts := map[string]bool{} // of kustomizations and dependencies, as NAME-VERSION
	from := func(files fs.FS) render.Source {
		s := l.sourceOf(files, app, source)
		s.KubeVersion, s.Budget = kubeVersion, nil // it may be one of thousands
		if open := s.Charts; open != nil {
			s.Charts = func(use lab.ChartUse) (lab.ChartFiles, error) {
				if source.Chart != "" {
					use.At = at
				}
				files, err := open(use)
				charts[use.Name+"-"+files.Version] = err == nil
				return files, err
			}
		}
		return s
	}
	var m made
	ref, title := from(nil).Ref, source.RepoURL+" "+source.TargetRevision
	switch why := l.unreadableSource(source.RepoURL, source.TargetRevision); {
	case source.Chart != "":
		use := lab.ChartUse{Name: source.Chart, Version: source.TargetRevision, Repository: source.RepoURL, At: at}
		m = l.chartSource(use, func(files fs.FS) render.Source {
			s := from(files)
			s.Path = "."
			return s
		})
		title = strings.Join([]string{"chart", use.Repository, use.Name, use.Version}, " ")
	case !ours:
		m = made{Source: from(nil), err: absent(at, source.Path+" of "+source.RepoURL, cureOf(source.RepoURL))}
	case why != "":
		m = made{Source: from(nil), err: absent(at, source.Path+" of "+source.RepoURL, why)}
	default:
		m.Source = from(l.tree(r, source.TargetRevision))
	}
	ofChart := m.name // nil for others
	m.name = func(tree, file string) string {
		top, _, _ := strings.Cut(file, "/")
		of, chart := strings.CutPrefix(tree, chartTree)
		switch {
		case chart:
			return path.Join(of, file)
		case tree != "":
			if s, known := app.Spec.Ref(tree); known {
				r, _ := l.source(s.RepoURL)
				return within(r, file)
			}
			return file
		case charts[top]:
			return file
		case ofChart != nil:
			return ofChart(tree, file)
		}
		return within(r, file)
	}
	own := m.FS
	if source.Chart != "" { // a version of a chart is what it is
		own = nil
	}
	m.digest = l.digests(func(name string) string {
		if name == "" {
			return title
		}
		s, _ := app.Spec.Ref(name)
		return s.RepoURL + " " + s.TargetRevision
	}, treeOf(own, ref))
	m.has = l.searches(m.digest, treeOf(m.FS, ref))
	return m
}

// treeOf returns the trees of a source by name, with its own as "".
func treeOf(own fs.FS, ref func(string) fs.FS) func(string) fs.FS {
	return func(name string) fs.FS {
		if name == "" {
			return own
		}
		return ref(name)
	}
}
