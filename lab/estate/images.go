package estate

import (
	"cmp"
	"errors"
	"path"
	"slices"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/render"
)

// images records the images of an application: lab loads its own, others need their registry.
func (l *loader) images(g *lab.Generated, refs []string) {
	if l.component == nil {
		return
	}
	for _, ref := range refs {
		if name := l.component(ref); name != "" {
			g.Images = appendNew(g.Images, name)
		} else {
			g.Pulls = appendNew(g.Pulls, ref)
		}
	}
}

// initial are the namespaces of a new cluster.
var initial = []string{"default", "kube-system", "kube-public", "kube-node-lease", "local-path-storage"}

// Namespaces returns the namespaces of a cluster without Applications.
func Namespaces(e *lab.Estate, cluster string) []string {
	c, _ := e.Cluster(cluster)
	names := slices.Concat(initial, c.Namespaces)
	if c.Role == lab.RoleHub {
		names = append(names, NamespaceOf(e))
	}
	return names
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
	if !slices.ContainsFunc(l.estate.Notes, func(o lab.Problem) bool { return o.Position == p.Position && o.Message == message }) {
		l.note(finding.CannotRender, p.Position, message, p.Cure)
	}
}
