package estate

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/render"
	"homelab/lab/strict"
)

var engineCharts = []string{"argo-cd"} // Flux replaces nothing of Argo CD

// replaces reports whether an Application installs an engine on the hub: its chart, directly or as a dependency, or its manifests. One whose folder also has other
// Applications does not count, as they would be left out with it.
func (l *loader) replaces(app *appset.Template, at lab.Position) bool {
	if !ToHub(l.estate, app) || slices.ContainsFunc(l.trees(app, "", at), func(t tree) bool { return l.held[t.folder()].leading > 0 }) {
		return false
	}
	return slices.ContainsFunc(app.Spec.All(), func(source appset.Source) bool {
		if slices.Contains(engineCharts, path.Base(source.Chart)) {
			return true
		}
		r, ours := l.source(source.RepoURL)
		if !ours || source.Path == "" {
			return false
		}
		from := l.sourceOf(l.tree(r, source.TargetRevision), app, source)
		return dependsOnEngine(from) || l.containsEngine(app, from)
	})
}

// dependsOnEngine reports whether a chart depends on that of an engine.
func dependsOnEngine(from render.Source) bool {
	data, err := fs.ReadFile(from.FS, path.Join(path.Clean(from.Path), "Chart.yaml"))
	if err != nil {
		return false // no chart
	}
	var chart struct{ Dependencies []struct{ Name string } }
	return yaml.Unmarshal(data, &chart) == nil && slices.ContainsFunc(chart.Dependencies, func(d struct{ Name string }) bool { return slices.Contains(engineCharts, d.Name) })
}

// containsEngine reports whether a folder contains Argo CD's manifests in the engine's namespace, or includes them from elsewhere.
func (l *loader) containsEngine(app *appset.Template, from render.Source) bool {
	for _, url := range render.Fetches(from) {
		if slices.ContainsFunc(argo.Sources(), func(part string) bool { return strings.Contains(url, part) }) ||
			strings.HasSuffix(url, "/argo-helm") && render.Mentions(from, "name: argo-cd") {
			return true
		}
	}
	if !render.Mentions(from, argo.Affix) {
		return false
	}
	objects, _ := l.objects(from, lab.Position{}) // what cannot be rendered is judged as its Application's
	return slices.ContainsFunc(objects, func(o render.Document) bool {
		namespace := cmp.Or(strict.Text(o.Node, "metadata", "namespace"), app.Spec.Destination.Namespace)
		return namespace == NamespaceOf(l.estate) && slices.Contains(argo.Installation(), strict.Text(o.Node, "kind")+"/"+strict.Text(o.Node, "metadata", "name"))
	})
}
