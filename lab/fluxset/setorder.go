package fluxset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/flux"
	"homelab/lab/fluxset/resourceset"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// dependency is an entry of spec.dependsOn of a ResourceSet: https://fluxoperator.dev/docs/crd/resourceset/#dependency-management
type dependency struct {
	object
	node  *yaml.Node
	ready bool // and not only exist; not by an expression
}

func (d dependency) String() string {
	return d.kind + " " + strings.TrimPrefix(d.namespace+"/"+d.name, "/")
}

// dependencies reads what a ResourceSet depends on. It returns what the API server refuses of it.
func (x *expander) dependencies(app *Application, n *yaml.Node) (refused *lab.Problem) {
	app.waitsForAll = strict.Text(n, "spec", "wait") == "true"
	app.Waits = app.waitsForAll
	for i, on := range strict.List(n, "spec", "dependsOn") {
		at, ready, expression := app.line(on), strict.Text(on, "ready") == "true", strict.Text(on, "readyExpr") != ""
		d := dependency{objectOf(on), on, ready && !expression}
		switch {
		case strict.Text(on, "apiVersion") == "" || d.kind == "" || d.name == "":
			return &lab.Problem{Code: finding.InvalidFlux, Position: at, Message: fmt.Sprintf("%s: spec.dependsOn[%d] needs apiVersion, kind and name", strict.Title(n), i)}
		case expression && !ready:
			return &lab.Problem{Code: finding.InvalidFlux, Position: at, Message: fmt.Sprintf("%s: spec.dependsOn[%d].readyExpr needs ready: true", strict.Title(n), i)}
		case expression:
			x.Notes = append(x.Notes, lab.Problem{Code: finding.UnknownOutput, Position: at, Message: fmt.Sprintf("%s waits for an expression about %s, which is not known offline", strict.Title(n), d)})
		}
		app.dependsOn = append(app.dependsOn, d)
	}
	return nil
}

// line returns the position of a node of an application's manifest.
func (a Application) line(n *yaml.Node) lab.Position {
	return lab.Position{File: a.At.File, Line: cmp.Or(n.Line, a.At.Line)}
}

// target returns the step that meets a dependency, without a key if it is met from the start. known is false if no application makes it.
func (s steps) target(a *Application, d dependency) (of step, known bool) {
	name := d.namespace + "/" + d.name
	on := s.apps[name]
	switch {
	case d.group == resourceset.Group && d.kind == resourceset.Kind:
		on = s.apps[resourceset.Kind+" "+name]
	case d.group != kustomizev1.GroupVersion.Group:
		on = nil
	}
	switch {
	case on != nil && d.ready:
		return step{on.Key(), ready}, true
	case on != nil:
		for _, n := range s.partOf(on) {
			of = n.step
		}
		return of, true
	case d.group == helmv2.GroupVersion.Group && d.ready && s.owner(d.object) != "":
		return step{s.owner(d.object), installed}, true
	}
	makers := s.makers[locate(a.Remote, d.object)]
	if len(makers) == 0 {
		return step{}, false
	}
	return step{makers[0], applied}, true
}

// orderSets sets the order of ResourceSets and of what they lead to, and notes the dependencies that can never be met.
func (x *expander) orderSets() {
	all := slices.Collect(x.all())
	for i := range x.Sets {
		all = append(all, &x.Sets[i])
	}
	for _, a := range all {
		a.idle = a.idle || strings.HasSuffix(a.LeftOut, operated)
	}
	s := newSteps(slices.Values(all))
	for i := range x.Sets {
		a := &x.Sets[i]
		s.order(a)
		for _, d := range a.dependsOn {
			if why := x.unmet(s, a, d); why != "" {
				x.Notes = append(x.Notes, lab.Problem{Code: finding.DependencyUnmet, Position: a.line(d.node), Message: fmt.Sprintf("%s depends on %s, %s", strict.Title(a.Manifest), d, why)})
			}
		}
	}
}

// unmet returns why a dependency of a ResourceSet can never be met, or "".
func (x *expander) unmet(s steps, a *Application, d dependency) string {
	of, known := s.target(a, d)
	namespaced, _ := render.Namespaced(render.Document{Node: d.node})
	if d.namespace == "" && (namespaced || needs.IsFlux(d.group)) {
		return "whose namespace the operator does not assume: write it"
	}
	if !known {
		if x.mayMake(s, a, d) {
			return ""
		}
		return "which nothing in the repositories creates"
	}
	for _, on := range s.closure(of) {
		switch {
		case of == (step{a.Key(), applied}):
			return "which only it creates"
		case on.key == a.Key():
			return "which waits for it in turn"
		case on.key != "" && s.apps[on.key] == nil && x.unsure() != "":
			return ""
		case on.key != "" && s.apps[on.key] == nil:
			return fmt.Sprintf("which waits for %s, which nothing in the repositories creates", on.key)
		case on.key != "" && s.fails(on):
			failed := s.apps[on.key]
			return strings.TrimSuffix("which "+failed.Name+" keeps back: "+failed.LeftOut, ": ")
		}
	}
	return ""
}

// mayMake reports whether something that no application applies may make a dependency: a chart, a controller, or who made the cluster.
func (x *expander) mayMake(s steps, a *Application, d dependency) bool {
	what := d.String()
	if d.group == "apiextensions.k8s.io" {
		if needs.IsFlux(d.name[strings.Index(d.name, ".")+1:]) {
			return true
		}
	} else if exists := []string{"ConfigMap", "Secret", accountKind}; d.namespace == flux.Namespace || !needs.IsFlux(d.group) && (d.group != "" || !slices.Contains(exists, d.kind)) {
		return true
	}
	n := needs.Need{Sort: needs.Exists, Object: d.node, What: what, By: []string{what}, May: []string{needs.CreatesObjects}}
	if by, perhaps := x.supply.Meeting(n, a.Remote); len(by)+len(perhaps) > 0 {
		return true
	}
	for _, on := range s.apps {
		if on.Elsewhere != "" || on.Missing != "" || slices.ContainsFunc(on.Releases, func(r Release) bool { return r.Remote == a.Remote && x.mayMeet(r)(n) }) {
			return true
		}
	}
	return false
}
