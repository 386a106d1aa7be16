package estate

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/finding"
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

// unsyncedRoots leaves out what the root cannot lead to: Argo CD syncs no object of a folder with a kind that the hub does not serve.
func (l *loader) unsyncedRoots() {
	for _, t := range l.roots {
		of := l.held[t.folder()]
		i := slices.IndexFunc(of.foreign, func(kind string) bool { return !slices.Contains(of.defined, kind) })
		if i < 0 || l.estate.Hub().Provider != lab.ProviderKind {
			continue
		}
		why := "nothing defines " + of.foreign[i] + " on " + l.estate.Hub().Name
		l.note(finding.Unsyncable, lab.Position{File: lab.RootFile, Line: 1}, within(t.repo, t.dir)+" cannot be synced: "+why, "exclude it: spec.source.kustomize.patches or spec.source.directory.exclude")
		for i := range l.estate.Applications {
			const why = "below the root, which cannot be synced"
			switch g := &l.estate.Applications[i]; {
			case g.Folder != t.key():
			case t.repo == nil && !t.chart:
				g.Doubt = why
			default:
				needs.Unsynced(g, why)
			}
		}
	}
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
