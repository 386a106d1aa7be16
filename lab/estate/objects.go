package estate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/estate/document"
	"homelab/lab/estate/judge"
	"homelab/lab/finding"
	"homelab/lab/fluxset"
	"homelab/lab/needs"
	"homelab/lab/render"
)

// sourceObjects returns what the objects of an Application's source are, and records their images, unless it leads to other Applications, and what they need and provide.
// What is not on this machine may provide anything. at returns the position of a field of the source.
func (l *loader) sourceObjects(g *lab.Generated, app *appset.Template, source appset.Source, at func(path ...string) lab.Position) (of judge.Source) {
	if l.component == nil || source.Chart == "" && source.Path == "" {
		return of
	}
	c, _ := l.estate.Cluster(g.Cluster)
	u := l.units[g.Name]
	u.Namespace, u.Nodes = app.Spec.Destination.Namespace, document.Nodes(c)
	defer func() { l.units[g.Name] = u }()
	if app.Spec.CreatesNamespace() {
		u.Has = append(u.Has, needs.Namespace(u.Namespace))
	}
	m := l.sourceFor(g.At, app, source, kubeVersion(c))
	var all []render.Document
	if m.err == nil {
		if m.Budget = l.budget; source.Chart != "" {
			m.Budget = l.chartBudget
		}
		all, m.err = l.objects(m.Source, g.At)
		l.unstable(g, m, all)
		all, m.err = m.named(all, m.err)
	}
	if why := m.unrenderable(); why != "" {
		m.at = func(path []string) []lab.Position { return []lab.Position{at(path...)} }
		of.Unrenderable = why + m.missing()
	}
	of.Objects = slices.DeleteFunc(slices.Clone(all), func(o render.Document) bool { return !needs.Applied(o) })
	of.Unknown = len(all) == 0 && m.err != nil
	u.Objects = append(u.Objects, of.Objects...)
	if !g.Leads {
		l.objectImages(g, of.Objects)
	}
	if own := source.RepoURL == l.inputs().ChartRepoURL; of.Unknown && (!own || u.May == nil) {
		u.May = func(n needs.Need) bool { return !own || n.Sort <= needs.Exists } // lab knows its own charts
	}
	return of
}

// relate records what Applications need of one another. Clusters that lab does not create may have anything.
func (l *loader) relate() {
	var clusters []needs.Unit
	for _, c := range l.estate.Clusters {
		if c.Provider != lab.ProviderKind {
			continue
		}
		own := needs.Unit{Cluster: c.Name, May: func(n needs.Need) bool {
			return n.Sort == needs.Exists && strings.HasPrefix(n.What, "ServiceAccount "+NamespaceOf(l.estate)+"/") || // may be the engine's
				n.Sort == needs.Served && c.Role == lab.RoleHub && needs.IsEngines(n.What)
		}}
		for _, name := range Namespaces(l.estate, c.Name) {
			own.Has = append(own.Has, needs.Namespace(name))
		}
		clusters = append(clusters, own)
	}
	if !l.isFlux() {
		needs.Relate(l.estate, needs.ArgoCD(MinorOf(l.estate)), l.units, clusters)
	}
}

// unrenderable returns why Argo CD cannot render a source either, or "". What a chart of a chart repository makes of the cluster's state is not known.
func (m made) unrenderable() string {
	known := new(render.Error)
	if !errors.As(m.err, &known) || known.Remote != "" || m.Chart != "" && (known.Limit || render.Mentions(m.Source, fluxset.OfCluster...)) {
		return ""
	}
	return known.String()
}

// missing returns the position that names a missing value file, " (FILE:LINE)".
func (m made) missing() string {
	known := new(render.Error)
	if !errors.As(m.err, &known) || known.Code != finding.ValueFileMissing {
		return ""
	}
	for _, layer := range m.layers() {
		if layer.File == known.File && layer.At.Line > 0 {
			return fmt.Sprintf(" (%s:%d)", layer.At.File, layer.At.Line)
		}
	}
	return ""
}

// unstable notes a chart with a value that differs each time that Argo CD renders it.
func (l *loader) unstable(g *lab.Generated, m made, objects []render.Document) {
	at, functions := render.Unstable(m.Source, objects, func(o render.Document) bool { return needs.IsHook(o.Node) }) // Argo CD compares no hooks
	if len(functions) == 0 {
		return
	}
	at.File = m.name("", at.File)
	message := fmt.Sprintf("%s is never in sync: %s gives another value each time that Argo CD renders it", g.Name, strings.Join(functions, ", "))
	if render.Mentions(m.Source, "lookup") {
		message += ", and lookup finds nothing without a cluster"
	}
	if m.Chart != "" {
		at, message = g.At, message+" ("+at.String()+")"
	}
	l.note(finding.UnstableValue, at, message, "write the value down, as in a Secret that is made once, or list the field under ignoreDifferences, with RespectIgnoreDifferences=true")
}

// objectImages records the images without which an Application is not healthy, and those that nodes always pull.
func (l *loader) objectImages(g *lab.Generated, objects []render.Document) {
	l.runningImages(g, objects)
	for _, ref := range needs.AlwaysPulled(running(objects)) {
		g.Pulls = appendNew(g.Pulls, ref)
	}
}

// runningImages records the images of objects: lab loads its own, and others need their registry if a pod starts with them.
func (l *loader) runningImages(g *lab.Generated, objects []render.Document) {
	if l.component == nil {
		return
	}
	needed := needs.Images(running(objects))
	for _, ref := range needs.Images(objects) {
		if name := l.component(ref); name != "" {
			g.Images = appendNew(g.Images, name)
		} else if slices.Contains(needed, ref) {
			g.Pulls = appendNew(g.Pulls, ref)
		}
	}
}

// running returns the objects that need pods, if they have any.
func running(objects []render.Document) []render.Document {
	return slices.DeleteFunc(slices.Clone(objects), func(o render.Document) bool { return needs.Idle(o.Node) })
}
