package estate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/estate/document"
	"homelab/lab/estate/judge"
	"homelab/lab/finding"
	"homelab/lab/flux"
	"homelab/lab/fluxset"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// chart records what a release needs: images, dependencies that are not vendored, and what its objects lack. What is not on this machine is unknown.
func (l *loader) chart(g *lab.Generated, known *judge.Release, w fluxset.World, x fluxset.Expansion, app fluxset.Application) {
	r, budget := known.Release, l.chartBudget
	if r.Folder != "" {
		fsys, place, err := r.Files()
		absent := new(fluxset.Absent)
		mounted, _ := l.mounted.File(r.At.File)
		switch {
		case errors.As(err, &absent) && absent.Why != "" && mounted != nil:
			known.Unusable = r.Source + ": " + err.Error()
			return
		case err != nil:
			g.Others = appendNew(g.Others, r.URL)
			return
		}
		switch info, err := fs.Stat(fsys, r.Folder); {
		case err != nil:
			known.NoFolder = fmt.Sprintf("folder %s in %s", r.Folder, placed(place(".")))
			return
		case !info.IsDir():
			return // an archive
		}
		for _, url := range render.Dependencies(fsys, r.Folder) {
			g.Others = appendNew(g.Others, url)
		}
		budget = w.Budget
	}
	m := l.release(w, app, r)
	if l.component == nil || m.err != nil {
		return
	}
	objects, err := m.as.RenderIn(m.FS, m.manifest, budget)
	if render.Exceeds(err) {
		l.exceeded(render.Source{Application: r.Name, Source: appset.Source{Path: r.Folder, Chart: r.Chart}, Budget: budget}, r.At, err)
	}
	if failed := new(render.Error); !slices.ContainsFunc(fluxset.OfCluster, func(word string) bool { return fluxset.Mentions(m.FS, m.Path, word) }) {
		if known.Objects = objects; errors.As(err, &failed) && failed.Remote == "" {
			known.Unusable = "its chart cannot be rendered: " + failed.Message
		}
	}
	if !r.Tested {
		objects = slices.DeleteFunc(slices.Clone(objects), func(o render.Document) bool { return !needs.Applied(o) })
	}
	l.runningImages(g, objects)
	c, _ := l.estate.Cluster(g.Cluster)
	kinds, waits := x.Lacks(app, r, objects, document.Nodes(c))
	if r.Unawaited || c.Provider == lab.ProviderExisting {
		waits = nil
	}
	for _, u := range append(kinds, waits...) {
		g.Lacks = append(g.Lacks, needOf(x, "HelmRelease "+r.Name+" ", u))
	}
}

// contentsOf returns the objects of a release's chart, if it may have some of Flux. Lab's own charts have none. What is not known of one for a namespace of Flux's objects, as what
// leads to others usually is, is noted.
func (l *loader) contentsOf(w fluxset.World, r fluxset.Release) []render.Document {
	if r.Source == ownCharts || r.URL == "" {
		return nil
	}
	m := l.release(w, fluxset.Application{}, r)
	_, leads := flux.ClusterOf(r.TargetNamespace)
	leads = leads || r.TargetNamespace == flux.Namespace
	switch {
	case m.err != nil && r.Values != nil && r.Folder == "" && leads:
		l.unread(l.chartOf(r))
		return nil
	case m.err != nil && r.Values == nil && leads:
		l.noteOnce(finding.UnknownOutput, r.At, "unknown: the values of HelmRelease "+r.Name+", so what it leads to", "lab does not wait for that")
		return nil
	case m.err != nil:
		return nil
	}
	const word = "toolkit.fluxcd.io"
	values, err := json.Marshal(r.Values)
	if _, there := fs.Stat(m.FS, path.Join(m.Path, "Chart.yaml")); there != nil || err != nil || !bytes.Contains(values, []byte(word)) && !fluxset.Mentions(m.FS, m.Path, word) {
		return nil
	}
	budget := l.chartBudget
	if r.Folder != "" {
		budget = w.Budget
	}
	objects, err := m.named(m.as.RenderIn(m.FS, m.manifest, budget))
	if known := new(render.Error); errors.As(err, &known) && !render.Exceeds(err) {
		l.noteOnce(finding.UnknownOutput, r.At, "unknown: the chart of HelmRelease "+r.Name+" could not be rendered: "+known.Message+" ("+known.Position.String()+")", "lab does not wait for what it leads to")
	}
	if r.Folder == "" {
		l.chartFolders[m.name("", "")] = true
	}
	return objects
}

// needOf returns what an application lacks.
func needOf(x fluxset.Expansion, who string, u fluxset.Undefined) lab.Need {
	return lab.Need{Why: who + u.Why, By: namesOf(x, u.By), State: lab.Absent}
}

// namesOf returns the names of applications, by their keys.
func namesOf(x fluxset.Expansion, keys []string) []string {
	var names []string
	for _, app := range slices.Concat(x.Applications, x.Roots, x.Sets) {
		if slices.Contains(keys, app.Key()) {
			names = append(names, generatedOf(app).Name)
		}
	}
	return names
}

// placed returns the name of a folder of the estate.
func placed(dir string) string {
	if dir == "." {
		return "the estate"
	}
	return dir
}

// isWorkload reports whether an object is more than a part of Flux, or a namespace.
func isWorkload(o render.Document) bool {
	group, _, _ := strings.Cut(strict.Text(o.Node, "apiVersion"), "/")
	return !needs.IsFlux(group) && strict.Text(o.Node, "kind") != "Namespace"
}
