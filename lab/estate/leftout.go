package estate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/estate/judge"
	"homelab/lab/finding"
	"homelab/lab/needs"
	"homelab/lab/render"
)

const manually = "synced manually: spec.syncPolicy.automated is not set"

// leaveOut sets why lab does not wait for an Application, if so. above is the manually synced application above it.
func (l *loader) leaveOut(g *lab.Generated, app *appset.Template, above string) {
	l.writesBack(app.Metadata.Annotations[argo.WriteBackMethod])
	switch {
	case above != "":
		needs.Unsynced(g, "below "+above+", which is synced manually")
		g.Held = true
	case l.replaces(app, g.At):
		g.LeftOut, g.Replaces = replacesEngine, true
	case hasPlugin(app):
		needs.Unsynced(g, "rendered by a plugin, which the lab's engine does not have")
	case !app.Spec.Automated():
		needs.Unsynced(g, manually)
		g.Blocks, g.Held = true, true
	case app.Spec.CreatesNamespace() && noNamespace(app) != "":
		needs.Unsynced(g, noNamespace(app))
		g.Blocks = true
	default:
		if why := l.forbidden(app, g.Cluster); why != "" {
			needs.Unsynced(g, why)
			g.Blocks = true
		}
	}
}

// noNamespace returns why there can be no namespace of an Application's destination, or "". Objects that name their own, or need none, are applied nevertheless.
func noNamespace(app *appset.Template) string {
	if ns := app.Spec.Destination.Namespace; ns != "" && len(validation.IsDNS1123Label(ns)) > 0 {
		return fmt.Sprintf("there can be no namespace %q", ns)
	}
	return ""
}

// rejected adds an Application that Argo CD rejects: a problem of the estate's own sets, left out of those in other repositories.
func (l *loader) rejected(s set, i appset.Invalid) {
	if l.isOwn(s.File) {
		code := finding.InvalidApplication
		if i.Twice {
			code = finding.DuplicateName
		}
		l.addProblem(lab.Problem{Code: code, Position: i.Position, Message: fmt.Sprintf("application %s: %s", i.Name, i.Message), Cure: i.Cure})
		return
	}
	l.addLeftOut(s.wave, lab.Generated{At: i.Position, Set: s.Name, Application: lab.Application{Name: i.Name, Addon: s.addon, LeftOut: i.Message}})
}

// second is rejected for an Application whose name another has.
func (l *loader) second(name, owner string, at lab.Position) {
	if l.isOwn(at.File) || l.isOwn(owner) {
		l.addProblem(lab.Problem{Code: finding.DuplicateName, Position: at, Message: "a second application " + name, Cure: "the name is taken by " + owner})
		return
	}
	l.note(finding.DuplicateName, at, fmt.Sprintf("a second application %s: the name is taken by %s", name, owner), "the first is waited for")
}

// addLeftOut adds an Application without a cluster of the estate.
func (l *loader) addLeftOut(w judge.Wave, g lab.Generated) {
	g.Cluster, g.Blocks, g.State = l.estate.Hub().Name, true, lab.Absent
	g.Folder, g.Wave = w.Folder, w.Number
	l.estate.Applications = append(l.estate.Applications, g)
}

// hasPlugin reports whether Argo CD renders a source with a config management plugin.
func hasPlugin(app *appset.Template) bool {
	return slices.ContainsFunc(app.Spec.All(), func(s appset.Source) bool {
		return s.Plugin != nil && s.Kustomize == nil && s.Helm == nil && s.Directory == nil
	})
}

// fetches adds the repositories that the engine fetches to render a folder.
func (l *loader) fetches(g *lab.Generated, r *lab.Repository, ours bool, source appset.Source) {
	if !ours || source.Chart != "" || source.Path == "" {
		return
	}
	if helm := source.Helm; helm != nil { // what differs between clusters is not fetched
		source.Helm = &appset.Helm{ValueFiles: slices.DeleteFunc(slices.Clone(helm.ValueFiles), func(f string) bool { return !strings.Contains(f, ":") })}
	}
	key, _ := json.Marshal(source) // cannot fail: it came from JSON
	urls, known := l.fetched[string(key)]
	if !known {
		urls = render.Fetches(render.Source{FS: l.tree(r, source.TargetRevision), Source: source})
		l.fetched[string(key)] = urls
	}
	for _, url := range urls {
		if _, mounted := l.source(url); !mounted && !slices.Contains(g.Others, url) {
			g.Others = append(g.Others, url)
		}
	}
}
