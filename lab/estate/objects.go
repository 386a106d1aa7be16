package estate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/estate/document"
	"homelab/lab/estate/project"
	"homelab/lab/finding"
	"homelab/lab/fluxset"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// sealed is a kind that only the cluster whose controller has the key can decrypt.
const sealed = "SealedSecret of bitnami.com/v1alpha1"

// sourceObjects records what the objects of an Application's source are: images, unless it leads to other Applications, and what they need and provide. What is not on
// this machine may provide anything. at returns the position of a field of the source.
func (l *loader) sourceObjects(g *lab.Generated, app *appset.Template, source appset.Source, at func(path ...string) lab.Position) {
	if l.component == nil || source.Chart == "" && source.Path == "" {
		return
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
		needs.Unsynced(g, "it cannot be rendered: "+why+m.missing())
	}
	objects := slices.DeleteFunc(slices.Clone(all), func(o render.Document) bool { return !needs.Applied(o) })
	u.Objects = append(u.Objects, objects...)
	if !g.Leads {
		l.objectImages(g, objects)
	}
	if foreign, _ := needs.Kinds(objects); slices.Contains(foreign, sealed) {
		const why = "its SealedSecrets are encrypted for the controller upstream"
		if g.Mounted {
			g.LeftOut, g.Blocks = cmp.Or(g.LeftOut, why), true
		} else {
			g.Doubt = cmp.Or(g.Doubt, why)
		}
	}
	if i := slices.IndexFunc(objects, func(o render.Document) bool { return fluxset.Encrypted(o.Node) }); i >= 0 {
		needs.Unsynced(g, objects[i].File+" is encrypted")
		g.Blocks = true
	}
	l.unappliable(g, app, objects, l.checks(u))
	if own := source.RepoURL == l.inputs().ChartRepoURL; len(all) == 0 && m.err != nil && (!own || u.May == nil) {
		u.May = func(n needs.Need) bool { return !own || n.Sort <= needs.Exists } // lab knows its own charts
	}
}

// checks reports whether an Application of which nothing is applied is unhealthy.
func (l *loader) checks(u needs.Unit) bool { return needs.ArgoCD(MinorOf(l.estate)).Checks(u) }

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
	switch chart := m.Chart != ""; {
	case !errors.As(m.err, &known) || known.Remote != "" || chart && (known.Limit || render.Mentions(m.Source, fluxset.OfCluster...)):
		return ""
	case chart || render.TypeOf(m.FS, m.Source.Source) == render.Plain || known.Missing != "":
		return known.String()
	}
	return known.Message
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

// unappliable leaves out an Application with objects that its project does not permit, in which case Argo CD applies none, or that are rejected.
func (l *loader) unappliable(g *lab.Generated, app *appset.Template, objects []render.Document, checked bool) {
	var options []string
	if app.Spec.SyncPolicy != nil {
		options = app.Spec.SyncPolicy.SyncOptions
	}
	for _, o := range objects {
		why := l.projects[project.Of(app)].RefusesObject(l.estate, app, g.Cluster, o)
		namespaced, _ := render.Namespaced(o)
		switch lacks := (namespaced || ofEngine(o.Node)) && strict.Text(o.Node, "metadata", "namespace") == ""; {
		case why != "" || !lacks:
		case app.Spec.Destination.Namespace == "":
			why = strict.Title(o.Node) + " has no namespace, and neither has its destination"
		case noNamespace(app) != "":
			why = strict.Title(o.Node) + " is in that of its destination: " + noNamespace(app)
		}
		if why != "" {
			needs.Unsynced(g, why)
			g.Blocks = g.Blocks || checked
			return
		}
	}
	for _, o := range objects {
		why := needs.ArgoCD(MinorOf(l.estate)).Rejected(o, options...)
		if problems := l.rejectedObject(o); why == "" && len(problems) > 0 {
			why = "rejected: " + problems[0].Message
		}
		if why != "" {
			why = strict.Title(o.Node) + " is " + why
			g.LeftOut, g.Blocks = cmp.Or(g.LeftOut, why), g.Blocks || checked
			return
		}
	}
	for _, o := range objects {
		if field := l.dropped(o); field != "" && g.LeftOut == "" {
			g.LeftOut, g.State = strict.Title(o.Node)+" has the unknown field "+field+", which is dropped: never in sync", lab.Drifts
		}
	}
}

// ofEngine reports whether an object is Argo CD's.
func ofEngine(doc *yaml.Node) bool {
	return strings.HasPrefix(strict.Text(doc, "apiVersion"), argo.Group) && slices.Contains(rootKinds, strict.Text(doc, "kind"))
}

// rejectedObject is appset.API.Rejected for objects of any kind.
func (l *loader) rejectedObject(o render.Document) lab.Problems {
	if !ofEngine(o.Node) {
		return nil
	}
	return l.api().Rejected(o.File, o.Node)
}

// dropped is appset.API.Dropped for objects of any kind.
func (l *loader) dropped(o render.Document) string {
	if kind := strict.Text(o.Node, "kind"); !ofEngine(o.Node) || kind == "AppProject" {
		return ""
	}
	return l.api().Dropped(o.Node)
}
