package estate

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/estate/judge"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// contents describes a tree's Argo CD objects and its other objects.
type contents struct {
	leading, other   int
	foreign, defined []string // as needs.Kinds
}

func (l *loader) hold(t tree, doc *yaml.Node) {
	of := l.held[t.folder()]
	if appset.OfArgoCD(doc) {
		of.leading++
	} else {
		of.other++
		foreign, defined := needs.Kinds([]render.Document{{Node: doc}})
		of.defined = append(of.defined, defined...)
		if !strings.Contains(strict.Text(doc, "metadata", "annotations", argo.SyncOptions), "SkipDryRunOnMissingResource=true") {
			of.foreign = append(of.foreign, foreign...)
		}
	}
	l.held[t.folder()] = of
}

// unsyncedRoots leaves out what the root cannot lead to.
func (l *loader) unsyncedRoots() {
	var roots []judge.Root
	for _, t := range l.roots {
		of := l.held[t.folder()]
		roots = append(roots, judge.Root{Folder: t.key(), Name: within(t.repo, t.dir), Own: t.repo == nil && !t.chart, Foreign: of.foreign, Defined: of.defined})
	}
	l.add(judge.Roots(l.estate, roots))
}

// leads reports whether an Application contains only Argo CD objects.
func (l *loader) leads(app *appset.Template, at lab.Position) bool {
	trees, leading := l.trees(app, "", at), 0
	for _, t := range trees {
		of := l.held[t.folder()]
		if leading += of.leading; of.other > 0 {
			return false
		}
	}
	folders := 0
	for _, s := range app.Spec.All() {
		if s.Path != "" || s.Chart != "" {
			folders++
		}
	}
	return leading > 0 && folders == len(trees)
}
