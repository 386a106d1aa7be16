package estate

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"

	"homelab/lab"
	"homelab/lab/estate/document"
	"homelab/lab/flux"
	"homelab/lab/fluxset"
	"homelab/lab/needs"
	"homelab/lab/render"
)

// ofCluster are words of templates that depend on what is in the cluster.
var ofCluster = []string{"lookup", "APIVersions"}

// chart records what a release of a chart in Git needs: images, dependencies that are not vendored, and ConfigMaps and Secrets that nothing creates.
func (l *loader) chart(g *lab.Generated, w fluxset.World, x fluxset.Expansion, app fluxset.Application, r fluxset.Release) {
	fsys, _, err := w.Repository(r.URL, r.Revision)
	if err != nil || r.Artifact {
		return // left out for that, or not here as it is
	}
	if info, err := fs.Stat(fsys, r.Folder); err != nil || !info.IsDir() {
		return // an archive
	}
	for _, url := range render.Dependencies(fsys, r.Folder) {
		g.Others = appendNew(g.Others, url)
	}
	objects, err := l.chartObjects(fsys, r)
	if known := new(render.Error); errors.As(err, &known) && known.Remote == "" && !slices.ContainsFunc(ofCluster, func(word string) bool { return fluxset.Mentions(fsys, r.Folder, word) }) {
		g.LeftOut = cmp.Or(g.LeftOut, "HelmRelease "+r.Name+": its chart cannot be rendered: "+known.Message)
	}
	if !r.Tested {
		objects = slices.DeleteFunc(objects, func(o render.Document) bool { return !needs.Applied(o) })
	}
	l.runningImages(g, objects)
	for _, u := range x.Undefined(app, r, objects) {
		g.Kinds = append(g.Kinds, lab.Need{Why: "HelmRelease " + r.Name + " " + u.Why, By: namesOf(x, u.By)})
	}
	if c, _ := l.estate.Cluster(g.Cluster); !r.Unawaited && c.Provider != lab.ProviderExisting {
		for _, u := range x.Unready(app, r, objects, document.Nodes(c)) {
			g.Kinds = append(g.Kinds, lab.Need{Why: "HelmRelease " + r.Name + " " + u.Why, By: namesOf(x, u.By)})
		}
	}
	of := needs.Reads(objects, r.TargetNamespace)
	if of.More || r.Unawaited {
		return
	}
	for _, object := range of.Read {
		kind, namespace, name := needs.Split(object)
		if kind == "Namespace" || namespace == flux.Namespace || slices.Contains(of.Created, object) || x.Has(fluxset.Read{Kind: kind, Namespace: namespace, Name: name, Cluster: r.Remote}) {
			continue
		}
		var by []string
		for _, other := range slices.Concat(x.Applications, x.Roots) {
			other.Releases = slices.DeleteFunc(slices.Clone(other.Releases), func(o fluxset.Release) bool { return o.At == r.At })
			if w.MayCreate(other, r.Remote, kind, namespace) {
				by = append(by, other.Key())
			}
		}
		g.Kinds = append(g.Kinds, lab.Need{Why: "HelmRelease " + r.Name + " needs " + object + ", which nothing available creates", By: namesOf(x, by)})
	}
}

// namesOf returns the names of applications, by their keys.
func namesOf(x fluxset.Expansion, keys []string) []string {
	var names []string
	for _, app := range slices.Concat(x.Applications, x.Roots) {
		if slices.Contains(keys, app.Key()) {
			names = append(names, generatedOf(app).Name)
		}
	}
	return names
}
