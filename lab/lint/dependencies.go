package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

// unit is a Kustomization or a HelmRelease.
type unit struct {
	by        application
	at        lab.Position
	suspended bool
	makers    []string // keys of the Kustomizations that apply it
	on        []dependency
}

type dependency struct {
	key string // as in units
	at  lab.Position
}

// units returns the Kustomizations and HelmReleases that applications have, by cluster, kind and name.
func (l *linter) units() map[string]*unit {
	units := map[string]*unit{}
	for _, a := range l.apps {
		manifest, _ := a.Manifest.(map[string]any)
		metadata, _ := manifest["metadata"].(map[string]any)
		for _, o := range a.objects {
			kind, group := strict.Text(o.Node, "kind"), kindOf(o).Group
			if group+kind != kustomizev1.GroupVersion.Group+kustomizev1.KustomizationKind && group+kind != helmv2.GroupVersion.Group+helmv2.HelmReleaseKind || o.Part != "" || yields(o.Node) {
				continue
			}
			namespace := strict.Text(o.Node, "metadata", "namespace")
			key := func(namespace, name string) string { return o.Cluster + " " + kind + " " + namespace + "/" + name }
			own := key(namespace, strict.Text(o.Node, "metadata", "name"))
			u := units[own]
			if u == nil {
				u = &unit{by: a, at: lab.Position{File: o.File, Line: o.Line}, suspended: strict.Text(o.Node, "spec", "suspend") == "true"}
				units[own] = u
				for _, on := range strict.List(o.Node, "spec", "dependsOn") {
					if strict.Text(on, "readyExpr") == "" {
						at := lab.Position{File: o.File, Line: cmp.Or(on.Line, o.Line)}
						u.on = append(u.on, dependency{key(cmp.Or(strict.Text(on, "namespace"), namespace), strict.Text(on, "name")), at})
					}
				}
			}
			u.makers = append(u.makers, fmt.Sprint(o.Cluster, " Kustomization ", metadata["namespace"], "/", metadata["name"]))
		}
	}
	return units
}

// dependencies finds those of Flux's objects that cannot be met.
func (l *linter) dependencies() {
	units := l.units()
	for _, own := range slices.Sorted(maps.Keys(units)) {
		u := units[own]
		for _, d := range u.on {
			on := units[d.key]
			if on == nil || slices.ContainsFunc(l.Problems, func(p lab.Problem) bool {
				return p.Code == finding.InvalidDependency && p.File == d.at.File && p.Line == d.at.Line
			}) {
				continue
			}
			_, name, _ := strings.Cut(d.key, " ")
			_, self, _ := strings.Cut(own, " ")
			why := ""
			switch {
			case d.key == own:
				why = "itself"
			case on.suspended:
				why = fmt.Sprintf("%s, which is suspended (%s)", name, on.at)
			case makes(units, own, d.key):
				why = name + ", which only it creates"
			case waits(units, d.key, own):
				why = name + ", which depends on it in turn"
			default:
				continue
			}
			at := d.at
			if !l.exists(at.File) {
				at = u.by.At
			}
			l.add(finding.Finding{
				Rule: finding.DependencyUnmet, Position: at, Subject: finding.Subject{Cluster: u.by.Cluster, Application: u.by.Name, Object: self}, Message: self + " depends on " + why,
			})
		}
	}
}

// makes reports whether a unit is created only by another, or by what only that creates.
func makes(units map[string]*unit, maker, of string) bool {
	for range units {
		u := units[of]
		if u == nil || len(u.makers) != 1 {
			return false
		}
		if of = u.makers[0]; of == maker {
			return true
		}
	}
	return false
}

// waits reports whether a unit depends on another, or on what does.
func waits(units map[string]*unit, from, on string) bool {
	seen := map[string]bool{}
	var visit func(key string) bool
	visit = func(key string) bool {
		if seen[key] || units[key] == nil {
			return false
		}
		seen[key] = true
		return slices.ContainsFunc(units[key].on, func(d dependency) bool { return d.key == on || visit(d.key) })
	}
	return visit(from)
}
