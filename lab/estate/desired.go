package estate

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/desired"
	"homelab/lab/finding"
	"homelab/lab/flux"
	"homelab/lab/fluxset"
	"homelab/lab/provenance"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// WithChartFiles opens charts of chart repositories, without network. An error is the reason why one cannot be read.
func WithChartFiles(open func(lab.ChartUse) (lab.ChartFiles, error)) Option {
	return func(l *loader) { l.openChart = open }
}

// Desired is Load, and also returns what the engine will have, in the order of Estate.Applications.
func Desired(fsys fs.FS, dir, name string, options ...Option) (*lab.Estate, []desired.App, error) {
	l, err := readAll(fsys, dir, name, options)
	if err != nil {
		return nil, nil, err
	}
	return l.estate, l.wanted(), nil
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
	field := sourceField(app, source, path...)
	if path[0] == ofDestination {
		field = append([]string{"spec"}, path...)
	}
	for _, o := range app.Origins(field...) {
		at = append(at, o.Position)
		if bridged := l.bridgedAt(o); bridged.File != "" {
			at = append(at, bridged)
		}
	}
	return at
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

// sourceFor returns how a source of an Application is rendered.
func (l *loader) sourceFor(at lab.Position, app *appset.Template, source appset.Source, kubeVersion string) made {
	charts := map[string]bool{} // of kustomizations and dependencies, as NAME-VERSION
	from := func(files fs.FS) render.Source {
		s := l.sourceOf(files, app, source)
		s.KubeVersion, s.Budget = kubeVersion, nil // it may be one of thousands
		if open := s.Charts; open != nil {
			s.Charts = func(use lab.ChartUse) (lab.ChartFiles, error) {
				files, err := open(use)
				charts[use.Name+"-"+files.Version] = err == nil
				return files, err
			}
		}
		return s
	}
	ref := from(nil).Ref
	refFile := func(ref, file string) string {
		for _, s := range app.Spec.All() {
			if r, _ := l.source(s.RepoURL); s.Ref == ref {
				return within(r, file)
			}
		}
		return file
	}
	refName := func(name string) string {
		for _, s := range app.Spec.All() {
			if s.Ref == name {
				return s.RepoURL + " " + s.TargetRevision
			}
		}
		return ""
	}
	if source.Chart != "" {
		use := lab.ChartUse{Name: source.Chart, Version: source.TargetRevision, Repository: source.RepoURL, At: at}
		m := l.chartSource(use, func(files fs.FS) render.Source {
			s := from(files)
			s.Path = "."
			return s
		})
		ofChart := m.name
		m.name = func(tree, file string) string {
			if tree == "" && ofChart != nil {
				return ofChart(tree, file)
			}
			return refFile(tree, file)
		}
		m.digest = l.digests(func(name string) string {
			if name == "" { // a version of a chart is what it is
				return strings.Join([]string{"chart", use.Repository, use.Name, use.Version}, " ")
			}
			return refName(name)
		}, func(name string) fs.FS {
			if name == "" {
				return nil
			}
			return ref(name)
		})
		return m
	}
	r, ours := l.source(source.RepoURL)
	what := source.Path + " of " + source.RepoURL
	switch why := l.unreadableSource(source.RepoURL, source.TargetRevision); {
	case !ours:
		return made{err: absent(at, what, "mount a clone of it: spec.repositories of the hub")}
	case why != "":
		return made{err: absent(at, what, why)}
	}
	m := made{Source: from(l.tree(r, source.TargetRevision)), name: func(tree, file string) string {
		if of, is := strings.CutPrefix(tree, chartTree); is {
			return path.Join(of, file)
		}
		if top, _, _ := strings.Cut(file, "/"); tree == "" && charts[top] {
			return file
		}
		if tree == "" {
			return within(r, file)
		}
		return refFile(tree, file)
	}}
	m.digest = l.digests(func(name string) string {
		if name == "" {
			return source.RepoURL + " " + source.TargetRevision
		}
		return refName(name)
	}, func(name string) fs.FS {
		if name == "" {
			return m.FS
		}
		return ref(name)
	})
	return m
}

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
			return nil, absent(app.At, strings.TrimPrefix(app.Path+" of ", " of ")+app.Elsewhere, "mount a clone of it: spec.repositories of the hub")
		case app.Objects == nil && app.LeftOut != "":
			return nil, &render.Error{Problem: lab.Problem{Code: finding.LeftOut, Position: app.At, Message: app.LeftOut}}
		}
		return app.Objects, nil
	}}
	of.Subject = func() (provenance.Subject, error) {
		if _, err := of.Render(); err != nil || app.Place == nil {
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
		At:      func(path []string) []lab.Position { return positions(app.Manifest, app.At.File, path) },
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

// release returns how a HelmRelease is rendered.
func (l *loader) release(w fluxset.World, app fluxset.Application, r fluxset.Release) made {
	if r.Values == nil {
		return made{err: absent(r.At, "an object with values of "+r.Name, "only the cluster has it")}
	}
	m, use := made{}, lab.ChartUse{}
	if r.Folder == "" {
		use = lab.ChartUse{Name: r.Chart, Version: r.Version, Repository: r.URL, At: r.At}
		if use.Name == "" { // an OCIRepository
			use.Name = path.Base(r.URL)
			use.Repository = strings.TrimSuffix(r.URL, "/"+use.Name)
			use.Version = cmp.Or(r.Revision, "latest")
		}
		if r.Source == "HelmRepository "+flux.Namespace+"/charts" {
			use.Repository = l.inputs().ChartRepoURL
		}
		r.Folder = "."
		m = l.chartSource(use, func(files fs.FS) render.Source { return render.Source{FS: files} })
	} else {
		files, dir, err := w.Repository(r.URL, r.Revision)
		if err != nil || r.Artifact {
			return made{err: absent(r.At, strings.TrimSuffix(r.Folder+" of "+r.URL, " of "), "")}
		}
		m = made{Source: render.Source{FS: files}, name: func(_, file string) string { return path.Join(dir, file) }}
	}
	m.Path, m.as = r.Folder, &r
	m.digest = l.digests(func(string) string {
		return strings.Join([]string{use.Repository, use.Name, use.Version, r.URL, r.Revision}, " ")
	}, func(string) fs.FS {
		if use.Name != "" {
			return nil
		}
		return m.FS
	})
	m.at = func(path []string) []lab.Position {
		i := slices.IndexFunc(app.Objects, func(o render.Document) bool { return o.File == r.At.File && o.Line == r.At.Line })
		if i < 0 {
			return nil
		}
		return positions(app.Objects[i].Node, app.Objects[i].File, path)
	}
	m.values = sync.OnceValue(func() []valuesFile { return valueFiles(app, r) })
	return m
}

// made is what a part is rendered from.
type made struct {
	render.Source
	name func(tree, file string) string     // of a file, for users
	at   func(path []string) []lab.Position // of a field of Source.Source
	as   *fluxset.Release                   // how Flux renders it; nil for Argo CD

	values func() []valuesFile // of as.From, those that are files

	err error // why it cannot be rendered

	manifest string // digest of the chart's in a registry

	digest func(ref, name string) string // render.Digest of a file, for Inputs; nil if the files are unknown
}

// inputs returns a digest of what rendering depends on; "" if that is unknown.
func (m made) inputs() string {
	var text string
	var err error
	switch {
	case m.digest == nil:
		return ""
	case m.as != nil:
		text, err = m.as.Inputs(m.FS, m.digest)
	default:
		text, err = m.Source.Inputs(m.digest)
	}
	if err != nil {
		return ""
	}
	if known := new(render.Error); errors.As(m.err, &known) {
		text += known.Message + known.Cure
	}
	return text
}

// digests returns render.Digest for the trees of a source, each read once. name tells the tree of a ref from others of the estate.
func (l *loader) digests(name func(ref string) string, tree func(ref string) fs.FS) func(ref, file string) string {
	return func(ref, file string) string {
		key := [2]string{name(ref), file}
		digest, known := l.digested[key]
		if files := tree(ref); !known && files != nil {
			digest = render.Digest(files, file)
			l.digested[key] = digest
		}
		return key[0] + digest
	}
}

// ofDestination is an option besides the fields of a source.
const ofDestination = "destination"

// chartTree begins the name of a chart's tree of files; refs have no slash.
const chartTree = "charts/"

// fixed are the fields of a source that choose what is rendered.
var fixed = []string{"repoURL", "path", "targetRevision", "chart", "ref", "name", "tagPrefix"}

// part completes a part. What it is made from is found out when it is needed.
func part(p desired.Part, of func() made) desired.Part {
	of = sync.OnceValue(of)
	p.Render = func() ([]render.Document, error) {
		m := of()
		return m.render(m.Source)
	}
	p.Subject = func() (provenance.Subject, error) { return of().subject() }
	p.Inputs = func() string { return of().inputs() }
	return p
}

func (m made) subject() (provenance.Subject, error) {
	if m.err != nil {
		return provenance.Subject{}, m.err
	}
	options := map[string]any{}
	text, err := json.Marshal(m.Source.Source)
	if err == nil {
		err = json.Unmarshal(text, &options)
	}
	if err != nil {
		return provenance.Subject{}, err
	}
	for _, field := range fixed {
		delete(options, field)
	}
	options[ofDestination] = map[string]any{"namespace": m.Namespace}
	if m.as != nil {
		return m.releaseSubject(), nil
	}
	return provenance.Subject{
		Options: options, Layers: m.Source.Layers(), ValuesAt: "helm.valuesObject.", Name: m.name, At: m.at,
		Render: func(options map[string]any, open func(string, fs.FS) fs.FS) ([]render.Document, error) {
			s := m.Source
			s.FS = open("", s.FS)
			if charts := s.Charts; charts != nil {
				s.Charts = func(use lab.ChartUse) (lab.ChartFiles, error) {
					files, err := charts(use)
					if err == nil {
						files.FS = open(chartTree+use.Name+"-"+files.Version, files.FS)
					}
					return files, err
				}
			}
			if ref := s.Ref; ref != nil {
				s.Ref = func(name string) fs.FS {
					if files := ref(name); files != nil {
						return open(name, files)
					}
					return nil
				}
			}
			if options != nil {
				text, err := json.Marshal(options)
				if err != nil {
					return nil, err
				}
				destination, _ := options[ofDestination].(map[string]any)
				s.Namespace, _ = destination["namespace"].(string)
				s.Helm, s.Kustomize, s.Directory, s.Plugin = nil, nil, nil, nil
				if err := json.Unmarshal(text, &s.Source); err != nil {
					return nil, err
				}
			}
			return m.render(s)
		},
	}, nil
}

// render renders a source, and names files as users know them.
func (m made) render(s render.Source) ([]render.Document, error) {
	if m.err != nil {
		return nil, m.err
	}
	var docs []render.Document
	var err error
	if m.as != nil {
		docs, err = m.as.RenderIn(s.FS, m.manifest, nil)
	} else {
		docs, err = render.Render(s)
	}
	for i := range docs {
		docs[i].File = m.name("", docs[i].File)
	}
	if known := new(render.Error); errors.As(err, &known) {
		e := *known
		e.File = m.name("", e.File)
		err = &e
	}
	return docs, err
}

// chartSource returns how a chart of a chart repository is rendered. Its files are named NAME-VERSION/...
func (l *loader) chartSource(use lab.ChartUse, of func(fs.FS) render.Source) made {
	title := strings.TrimSpace("chart " + use.Name + " " + use.Version)
	if l.openChart == nil {
		return made{Source: of(nil), err: absent(use.At, title, "")}
	}
	files, err := l.chartFiles(use)
	if err != nil {
		return made{Source: of(nil), err: absent(use.At, title, err.Error())}
	}
	return made{Source: of(files), manifest: files.Manifest, name: func(tree, file string) string {
		if tree == "" {
			return path.Join(use.Name+"-"+files.Version, file)
		}
		return file
	}}
}

// chartFiles opens a chart once.
func (l *loader) chartFiles(use lab.ChartUse) (lab.ChartFiles, error) {
	if use.Repository == l.inputs().ChartRepoURL {
		use.Repository = ""
	}
	key := use
	key.At = lab.Position{}
	of, known := l.charts[key]
	if !known {
		of.ChartFiles, of.err = l.openChart(use)
		l.charts[key] = of
	}
	return of.ChartFiles, of.err
}

// openedChart is a chart, or the reason that it cannot be read.
type openedChart struct {
	lab.ChartFiles
	err error
}

// absent is the error for what is not on this machine.
func absent(at lab.Position, what, why string) error {
	message := what + " is not on this machine"
	if why != "" {
		message += ": " + why
	}
	return &render.Error{Problem: lab.Problem{Code: finding.NotHere, Position: at, Message: message}, Remote: what}
}
