package estate

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/estate/document"
	"homelab/lab/estate/leftout"
	"homelab/lab/estate/project"
	"homelab/lab/fluxset"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// sealed is a kind that only the cluster whose controller has the key can decrypt.
const sealed = "SealedSecret of bitnami.com/v1alpha1"

// sourceObjects records what the objects in an Application's source need and provide: images, unless it leads to other Applications, kinds, objects, and what they wait for.
func (l *loader) sourceObjects(g *lab.Generated, app *appset.Template, r *lab.Repository, ours bool, source appset.Source) {
	if l.component == nil || source.Chart == "" && source.Path == "" {
		return
	}
	n := l.needs[g.Name]
	defer func() { l.needs[g.Name] = n }()
	created := ""
	if app.Spec.CreatesNamespace() {
		created = needs.Namespace(app.Spec.Destination.Namespace)
		g.Creates = appendNew(g.Creates, created)
	}
	if !ours || source.Chart != "" {
		g.Opaque, n.Checked = true, true
		n.Opaque = n.Opaque || source.RepoURL != l.inputs().ChartRepoURL
		return
	}
	c, _ := l.estate.Cluster(g.Cluster)
	from := l.sourceOf(l.tree(r, source.TargetRevision), app, source)
	from.KubeVersion = kubeVersion(c)
	all, err := l.objects(from)
	plain := render.TypeOf(l.tree(r, source.TargetRevision), source) == render.Plain
	if known := new(render.Error); errors.As(err, &known) && known.Remote == "" {
		why := known.Message
		if plain {
			why = known.String()
		}
		leftout.Unsynced(g, "it cannot be rendered: "+why)
	}
	objects := slices.DeleteFunc(slices.Clone(all), func(o render.Document) bool { return !needs.Applied(o) })
	n.Add(needs.Rules{Minor: MinorOf(l.estate)}, objects, app.Spec.Destination.Namespace, document.Nodes(c))
	if !g.Leads {
		l.objectImages(g, objects)
	}
	if foreign, _ := needs.Kinds(objects); slices.Contains(foreign, sealed) {
		g.LeftOut, g.Blocks = cmp.Or(g.LeftOut, "its SealedSecrets are encrypted for the controller upstream"), true
	}
	if i := slices.IndexFunc(objects, func(o render.Document) bool { return fluxset.Encrypted(o.Node) }); i >= 0 {
		leftout.Unsynced(g, objects[i].File+" is encrypted")
		g.Blocks = true
	}
	l.unappliable(g, app, objects, n.Checked)
	of := needs.Reads(objects, app.Spec.Destination.Namespace)
	present := []string{created}
	for _, name := range Namespaces(l.estate, g.Cluster) {
		present = append(present, needs.Namespace(name))
	}
	accounts := "ServiceAccount " + NamespaceOf(l.estate) + "/" // may be the engine's
	of.Read = slices.DeleteFunc(of.Read, func(object string) bool {
		return slices.Contains(present, object) || strings.HasPrefix(object, accounts)
	})
	g.Reads, g.Creates, g.More = append(g.Reads, of.Read...), append(g.Creates, of.Created...), g.More || of.More
	if len(all) == 0 && err != nil {
		g.Opaque, n.Opaque = true, true
	}
}

// objectImages records the images without which an Application is not healthy, and those that nodes always pull.
func (l *loader) objectImages(g *lab.Generated, objects []render.Document) {
	l.runningImages(g, objects)
	for _, ref := range needs.AlwaysPulled(slices.DeleteFunc(slices.Clone(objects), needs.Idle)) {
		g.Pulls = appendNew(g.Pulls, ref)
	}
}

// runningImages records the images of objects that need pods, and loads others that lab has.
func (l *loader) runningImages(g *lab.Generated, objects []render.Document) {
	if l.component == nil {
		return
	}
	l.images(g, fluxset.Images(slices.DeleteFunc(slices.Clone(objects), needs.Idle)))
	for _, ref := range fluxset.Images(objects) {
		if name := l.component(ref); name != "" {
			g.Images = appendNew(g.Images, name)
		}
	}
}

// unappliable leaves out an Application with objects that its project does not permit, in which case Argo CD applies none, or that are rejected.
func (l *loader) unappliable(g *lab.Generated, app *appset.Template, objects []render.Document, checked bool) {
	var options []string
	if app.Spec.SyncPolicy != nil {
		options = app.Spec.SyncPolicy.SyncOptions
	}
	for _, o := range objects {
		why := l.projects[project.Of(app)].RefusesObject(l.estate, app, g.Cluster, o)
		if namespaced, _ := render.Namespaced(o); (namespaced || ofEngine(o.Node)) && app.Spec.Destination.Namespace == "" && strict.Text(o.Node, "metadata", "namespace") == "" {
			why = cmp.Or(why, objectName(o)+" has no namespace, and neither has its destination")
		}
		if why != "" {
			leftout.Unsynced(g, why)
			g.Blocks = g.Blocks || checked
			return
		}
	}
	for _, o := range objects {
		why := needs.Unappliable(o, options)
		if problems := l.rejectedObject(o); why == "" && len(problems) > 0 {
			why = objectName(o) + " is rejected: " + problems[0].Message
		}
		if why != "" {
			g.LeftOut, g.Blocks = cmp.Or(g.LeftOut, why), g.Blocks || checked
			return
		}
	}
	for _, o := range objects {
		if field := l.dropped(o); field != "" && g.LeftOut == "" {
			g.LeftOut, g.Drifts = objectName(o)+" has the unknown field "+field+", which is dropped: never in sync", true
		}
	}
}

func objectName(o render.Document) string {
	return strict.Text(o.Node, "kind") + " " + strict.Text(o.Node, "metadata", "name")
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
