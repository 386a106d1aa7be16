package estate

import (
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/fluxset"
	"homelab/lab/render"
)

// chart records what a release of a chart in Git needs: images, dependencies that are not vendored, and ConfigMaps and Secrets that nothing creates.
func (l *loader) chart(g *lab.Generated, w fluxset.World, x fluxset.Expansion, app fluxset.Application, r fluxset.Release) {
	fsys, _, err := w.Repository(r.URL, r.Revision)
	if err != nil {
		return // left out for that
	}
	for _, url := range render.Dependencies(fsys, r.Folder) {
		g.Others = appendNew(g.Others, url)
	}
	objects := l.chartObjects(fsys, r)
	l.images(g, fluxset.Images(objects))
	of := render.Reads(objects, r.TargetNamespace)
	if of.More || r.Unawaited {
		return
	}
	for _, object := range of.Read {
		kind, key, _ := strings.Cut(object, " ")
		namespace, name, _ := strings.Cut(key, "/")
		if kind == "Namespace" || slices.Contains(of.Created, object) || x.Has(fluxset.Read{Kind: kind, Namespace: namespace, Name: name, Cluster: r.Remote}) {
			continue
		}
		need := lab.KindNeed{Why: "HelmRelease " + r.Name + " needs " + object + ", which nothing available creates"}
		for _, other := range slices.Concat(x.Applications, x.Roots) {
			if render.Reads(other.Objects, "").More || slices.ContainsFunc(other.Releases, func(o fluxset.Release) bool { return o.At != r.At && mayCreate(w, o, kind, namespace) }) {
				need.By = append(need.By, generatedOf(other).Name)
			}
		}
		g.Kinds = append(g.Kinds, need)
	}
}

// mayCreate reports whether a release may create objects of a kind in a namespace: its chart is not in Git, or mentions the kind.
func mayCreate(w fluxset.World, r fluxset.Release, kind, namespace string) bool {
	if r.Folder == "" {
		return true
	}
	fsys, _, err := w.Repository(r.URL, r.Revision)
	return err != nil || r.TargetNamespace == namespace && render.Mentions(render.Source{FS: fsys, Source: appset.Source{Path: r.Folder, Helm: &appset.Helm{}}}, "kind: "+kind)
}
