package estate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/estate/judge"
	"homelab/lab/finding"
	"homelab/lab/render"
)

// maxRenderings limits the renderings of an estate: a chart may generate an Application of itself under another name, and so on.
const maxRenderings = 200

// rendering is how an Application's folder or chart is rendered.
type rendering struct {
	made               // of a folder, its Source alone
	root *lab.Position // position of the root's Application that syncs it, or nil
	at   lab.Position  // of the Application of a chart
}

// sourceOf returns how a folder is rendered.
func (l *loader) sourceOf(fsys fs.FS, app *appset.Template, source appset.Source) render.Source {
	var charts func(lab.ChartUse) (lab.ChartFiles, error)
	if l.openChart != nil {
		r, _ := l.source(source.RepoURL)
		charts = func(use lab.ChartUse) (lab.ChartFiles, error) {
			use.At.File = within(r, use.At.File)
			return l.chartFiles(use)
		}
	}
	return render.Source{
		FS: fsys, Charts: charts, Source: source, Budget: l.budget, Templates: &l.templates, Application: app.Metadata.Name, Project: app.Spec.Project, Namespace: app.Spec.Destination.Namespace,
		KubeVersion: kubeVersion(l.estate.Hub()), Minor: MinorOf(l.estate), Sources: app.Spec.Sources,
		Ref: func(name string) fs.FS {
			s, known := app.Spec.Ref(name)
			r, ours := l.source(s.RepoURL)
			if !known || !ours {
				return nil
			}
			if r == nil {
				return l.fsys
			}
			if at, err := r.Of(s.TargetRevision); err == nil {
				return at.FS
			}
			return nil
		},
	}
}

// rendering records how a folder is rendered and returns a key for it.
func (l *loader) rendering(fsys fs.FS, app *appset.Template, source appset.Source, root *lab.Position) string {
	key := renderingKey(app, source)
	if _, known := l.renderings[key]; !known {
		l.renderings[key] = rendering{root: root, made: made{Source: l.sourceOf(fsys, app, source)}}
	}
	return key
}

func renderingKey(app *appset.Template, source appset.Source) string {
	key, _ := json.Marshal([]any{app.Metadata.Name, app.Spec.Project, app.Spec.Destination, app.Spec.All(), source}) // cannot fail: strings and decoded JSON
	return string(key)
}

// chartTree returns the tree of a chart of a chart repository. Lab's own lead to nothing, and what replaces the engine is left out. One that cannot be read is noted, once,
// if it is for the engine's namespace: what leads to others usually is.
func (l *loader) chartTree(app *appset.Template, source appset.Source, at lab.Position, ofRoot bool) []tree {
	if source.RepoURL == l.inputs().ChartRepoURL || slices.Contains(engineCharts, path.Base(source.Chart)) {
		return nil
	}
	key := renderingKey(app, source)
	x, known := l.renderings[key]
	if !known {
		x.made, x.at = l.sourceFor(at, app, source, kubeVersion(l.estate.Hub())), at
		if x.Budget = l.chartBudget; ofRoot {
			x.root = &x.at
		}
		l.renderings[key] = x
	}
	if x.err == nil {
		dir := x.name("", "")
		l.chartFolders[dir] = true
		return []tree{{chart: true, dir: dir, rendering: key, namespace: cmp.Or(app.Spec.Destination.Namespace, corev1.NamespaceDefault)}}
	}
	if ofRoot || app.Spec.Destination.Namespace == NamespaceOf(l.estate) {
		l.unsure = true
		l.unread(lab.ChartUse{Name: source.Chart, Version: source.TargetRevision, Repository: source.RepoURL, At: at})
	}
	return nil
}

// unread notes, once, a chart that cannot be read and may lead to applications.
func (l *loader) unread(use lab.ChartUse) {
	of := l.charts[unplaced(use)]
	if of.unread {
		return
	}
	of.unread, of.at = true, use.At
	l.charts[unplaced(use)] = of
	message := "unknown: " + judge.ChartTitle(use) + " could not be read"
	if of.err != nil {
		message += ": " + of.err.Error()
	}
	l.note(finding.UnknownOutput, use.At, message, "lab does not wait for what it leads to")
}

// syncRendered is sync for a chart or a kustomization. Addons are not rendered: they contain no Applications.
func (l *loader) syncRendered(t tree) []tree {
	x := l.renderings[t.rendering]
	if x.root == nil && x.Namespace != NamespaceOf(l.estate) && !render.Mentions(x.Source, "argoproj.io") {
		return nil
	}
	if l.rendered++; l.rendered > maxRenderings {
		if !l.endless {
			l.endless = true
			l.fail(lab.RootFile, fmt.Sprintf("more than %d charts and kustomizations", maxRenderings), x.Application+" of "+within(t.repo, t.dir)+" exceeds the limit: is there a cycle?")
		}
		return nil
	}
	docs, err := render.Render(x.Source)
	if t.chart {
		docs, err = x.named(docs, err)
	}
	if err != nil {
		l.renderFailed(t, x, err)
		return nil
	}
	return l.addObjects(t, docs)
}

// renderFailed reports a rendering error. Unavailable remotes are not a problem, and errors below the root are left to the
// engine, which has the cluster's state.
func (l *loader) renderFailed(t tree, x rendering, err error) {
	l.unsure = true
	p := lab.Problem{Code: finding.CannotRender, Position: lab.Position{File: t.dir}, Message: err.Error()}
	var known *render.Error
	if errors.As(err, &known) {
		p = known.Problem
	}
	if p.File = within(t.repo, p.File); p.Line == 0 && x.root != nil && p.File == within(t.repo, t.dir) {
		p.Position = *x.root // its reference to the folder is wrong
	}
	p.Line = max(p.Line, 1)
	x.err = err
	switch {
	case t.chart && render.Exceeds(err):
		l.exceeded(x.Source, x.at, err)
	case t.chart && x.root != nil && x.unrenderable() != "":
		l.at(p.Code, x.at, x.Application+" cannot be rendered: "+p.Message+" ("+p.Position.String()+")", p.Cure)
	case t.chart:
		l.note(finding.UnknownOutput, x.at, "unknown: the chart of "+x.Application+" could not be rendered: "+p.Message+" ("+p.Position.String()+")", "lab does not wait for what it leads to")
	case known != nil && known.Remote != "":
		cure := "lab does not wait for its Applications"
		if p.Cure != "" {
			cure = p.Cure + "; " + cure
		}
		l.note(finding.UnknownOutput, p.Position, "only the running engine knows what "+x.Application+" contains: "+p.Message, cure)
	case x.root != nil || render.Exhausted(err):
		l.problems = append(l.problems, p)
	case x.FS != nil && t.repo == nil: // otherwise noted for the Application
		l.note(finding.CannotRender, p.Position, x.Application+" cannot be rendered: "+p.Message, p.Cure)
	}
}

// objects returns the objects of a source. What exceeds a limit is reported as unknown: a chart of a chart repository at the position of what names it.
func (l *loader) objects(from render.Source, at lab.Position) ([]render.Document, error) {
	docs, err := render.Render(from)
	if missing := new(render.Error); errors.As(err, &missing) && missing.Missing == path.Clean(from.Path) {
		err = nil // reported for its Application
	}
	if render.Exceeds(err) {
		l.exceeded(from, at, err)
	}
	return docs, err
}

// exceeded reports a source that exceeds a limit, once: a problem if nothing more of the estate's can be rendered, else a note.
func (l *loader) exceeded(from render.Source, at lab.Position, err error) {
	var e *render.Error
	if !errors.As(err, &e) {
		return
	}
	p := e.Problem
	p.Line = max(p.Line, 1)
	message := cmp.Or(from.Application, from.Path) + " is not known offline: " + p.Message
	switch {
	case render.Exhausted(err) && from.Budget != l.chartBudget:
		if !slices.ContainsFunc(l.problems, func(o lab.Problem) bool { return o.Message == p.Message }) {
			l.problems = append(l.problems, p)
		}
		return
	case render.Exhausted(err):
		p.Position, message = lab.Position{File: lab.RootFile, Line: 1}, "not all charts of chart repositories are known offline: "+p.Message
	case from.Chart != "":
		p.Position, message = at, message+" ("+p.Position.String()+")"
	}
	l.noteOnce(finding.CannotRender, p.Position, message, p.Cure)
}

// unknown notes a source whose content the files do not show.
func (l *loader) unknown(at lab.Position, what, cure string) {
	l.unsure = true
	l.note(finding.UnknownOutput, at, "only the running engine knows what "+what+" generates", cure)
}

// inChart reports whether a file is a template or part of a subchart.
func (l *loader) inChart(file string) bool {
	for dir := path.Dir(file); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if base := path.Base(dir); (base == "templates" || base == "charts") && l.exists(path.Join(path.Dir(dir), "Chart.yaml")) {
			return true
		}
	}
	return false
}

// fetches adds the repositories that the engine fetches to render a folder.
func (l *loader) fetches(g *lab.Generated, r *lab.Repository, ours bool, source appset.Source) {
	if !ours || source.Chart != "" || source.Path == "" {
		return
	}
	if helm := source.Helm; helm != nil { // what differs between clusters is not fetched
		source.Helm = &appset.Helm{ValueFiles: slices.DeleteFunc(slices.Clone(helm.ValueFiles), func(f string) bool { return !strings.Contains(f, ":") })}
	}
	key, _ := json.Marshal(source) // cannot fail: it came from JSON
	urls, known := l.fetched[string(key)]
	if !known {
		urls = render.Fetches(render.Source{FS: l.tree(r, source.TargetRevision), Source: source})
		l.fetched[string(key)] = urls
	}
	for _, url := range urls {
		if _, mounted := l.source(url); !mounted && !slices.Contains(g.Others, url) {
			g.Others = append(g.Others, url)
		}
	}
}
