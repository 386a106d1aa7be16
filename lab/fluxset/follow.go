package fluxset

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// follow builds a Kustomization and then those in it. Faults of a mounted repository are left out, not reported: it is not
// ours to fix.
func (x *expander) follow(doc render.Document, parent *Application, depth int) *Application {
	at := lab.Position{File: doc.File, Line: doc.Line}
	app := &Application{Namespace: strict.Text(doc.Node, "metadata", "namespace"), Name: strict.Text(doc.Node, "metadata", "name"), At: at, Manifest: doc.Node}
	if parent != nil {
		app.Parent, app.mounted = parent.Key(), parent.mounted
	}
	fail := func(at lab.Position, message string) *Application {
		if app.mounted {
			app.stall(message)
			return app
		}
		x.fail(at, message, "")
		app.invalid = message
		return nil
	}
	if depth > maxDepth {
		x.fail(at, fmt.Sprintf("Kustomizations nest more than %d deep", maxDepth), "")
		return nil
	}
	var spec map[string]any
	if n := strict.Get(doc.Node, "spec"); n == nil || n.Decode(&spec) != nil {
		return fail(at, "spec is missing")
	}
	x.conditions(app, doc.Node)
	app.Remote = x.remote(app, doc)
	x.assign(app)
	x.account(app, doc)
	ref := strict.Get(doc.Node, "spec", "sourceRef")
	source := strict.Text(ref, "kind") + " " + cmp.Or(strict.Text(ref, "namespace"), app.Namespace) + "/" + strict.Text(ref, "name")
	app.source = x.unpacked(source)
	source, app.fromOCI = app.source, app.source != source
	from, err := x.treeOf(source)
	var absent *Absent
	switch {
	case errors.Is(err, errNoSource):
		app.Missing, app.Path = source, path.Clean(strict.Text(doc.Node, "spec", "path"))
		message := fmt.Sprintf("source %s does not exist", source)
		if !app.mounted {
			message = "Kustomization " + app.Name + ": " + message
		}
		fail(lab.Position{File: doc.File, Line: cmp.Or(lineOf(ref), doc.Line)}, message)
		return app
	case errors.As(err, &absent) && absent.Why == "":
		app.Elsewhere = from.url // not in the files
		if app.engine = app.mounted && appliesFlux(doc.Node, from.url); app.engine {
			app.stall(replacesFlux)
		}
		return app
	case err != nil:
		app.stall(source + ": " + err.Error())
		return app
	}
	within := app.mounted
	if app.mounted = from.mounted; app.mounted {
		x.leaveOutRemote(app, doc.Node)
		x.leaveOutIncluding(app)
	}
	app.Path = from.place(strict.Text(doc.Node, "spec", "path"))
	k := render.Kustomization{FS: from.FS, Budget: x.Budget, Path: strict.Text(doc.Node, "spec", "path"), Spec: spec, Variables: x.variables(app, doc), Note: func(p lab.Problem) {
		p.File = from.place(p.File)
		x.Notes = append(x.Notes, p)
	}}
	objects, unset, err := app.build(k, from)
	var invalid *render.Error
	switch {
	case err != nil && within:
		app.stall("cannot be built: " + err.Error())
		return app
	case errors.As(err, &invalid):
		p := invalid.Problem
		p.File = from.place(p.File)
		if invalid.Remote != "" {
			p.Cure = cmp.Or(p.Cure, "lab reads no remote bases: put it into the repository, or leave it out if it is Flux's own, which lab installs")
		}
		x.Problems = append(x.Problems, p)
		app.invalid = p.Message
		return app
	case err != nil:
		x.fail(at, err.Error(), "")
		app.invalid = err.Error()
		return app
	}
	app.Objects, app.Unset, app.Built, app.Place = objects, unset, k, from.place
	literal := ""
	if k.Variables == nil && strict.Get(doc.Node, "spec", "postBuild") != nil {
		literal = x.literal(app)
	}
	if app.engine = app.mounted && parent != nil && installsFlux(objects); app.engine {
		app.stall(replacesFlux)
	}
	if len(unset) > 0 && app.mounted { // strict, like Flux
		app.stall(fmt.Sprintf("variable %s is not set: %s", unset[0].Name, unset[0].At))
	}
	if app.Remote != "" {
		x.leaveOutNested(app)
		x.applied(app)
		return app
	}
	x.leads(app, literal, depth)
	return app
}

// leads follows what an application applies.
func (x *expander) leads(app *Application, literal string, depth int) {
	x.sources(app.Objects)
	x.applied(app)
	for _, o := range app.Objects {
		x.bridged(app.Name, app.Cluster, o)
		switch {
		case ignored(o.Node):
		case strict.Text(o.Node, "kind") == "HelmRelease":
			x.releases(app, o, literal, "", depth)
		case isKustomization(o.Node):
			x.below(app, o, "", depth)
		}
	}
}

// below follows a Kustomization that an application applies, or the chart of its release.
func (x *expander) below(app *Application, o render.Document, release string, depth int) {
	if x.seen[key(o.Node)] {
		return
	}
	x.seen[key(o.Node)] = true
	parent := *app
	parent.mounted = app.mounted || release != "" // faults of a chart are left out, too
	if below := x.follow(o, &parent, depth+1); below != nil {
		below.Release = release
		x.Applications = append(x.Applications, *below)
	}
}

// releases adds a HelmRelease of an application, or of the chart of another of its releases, and follows what its own chart leads to.
func (x *expander) releases(app *Application, o render.Document, literal, within string, depth int) {
	if depth > maxDepth || within != "" && slices.ContainsFunc(app.Releases, func(r Release) bool { return r.Namespace+"/"+r.Name == key(o.Node) }) {
		return // a chart of itself
	}
	r := x.release(o)
	r.Remote, r.Within = x.remote(app, o), within
	x.assign(app)
	x.readValues(app, o)
	x.account(app, o)
	if app.mounted {
		x.leaveOutRemote(app, o.Node)
	}
	if strings.Contains(r.ReleaseName, "${") && literal != "" {
		r.why = cmp.Or(r.why, fmt.Sprintf("HelmRelease %s has the release name %s: %s", r.Name, r.ReleaseName, literal))
	}
	if r.Engine && app.mounted {
		app.stall("HelmRelease " + r.Name + " " + replacesFlux)
	}
	app.LeftOut = cmp.Or(app.LeftOut, r.why)
	if app.Releases = append(app.Releases, r); x.Contents == nil || r.Remote != "" || r.Engine || r.Suspended {
		return
	}
	var objects []render.Document
	for _, d := range x.Contents(r) {
		for _, n := range strict.Items(d.Node) {
			if metadata := strict.Get(n, "metadata"); metadata != nil && lacksNamespace(n) {
				strict.Set(metadata, "namespace", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: r.TargetNamespace})
			}
			objects = append(objects, render.Document{Node: n, File: d.File})
		}
	}
	x.sources(objects)
	for _, o := range objects {
		x.holds(app, o)
	}
	for _, o := range objects {
		switch {
		case strings.HasPrefix(strict.Text(o.Node, "apiVersion"), helmv2.GroupVersion.Group+"/") && strict.Text(o.Node, "kind") == helmv2.HelmReleaseKind:
			x.releases(app, o, "", r.Name, depth+1)
		case isKustomization(o.Node):
			x.below(app, o, r.Name, depth)
		}
	}
}
