package fluxset

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"homelab/lab/strict"
)

// object identifies an object in any version of its API.
type object struct{ group, kind, namespace, name string }

// objectOf returns the identity of an object, or of a reference to one in spec.healthChecks.
func objectOf(n *yaml.Node) object {
	o := object{kind: strict.Text(n, "kind"), namespace: strict.Text(n, "metadata", "namespace"), name: strict.Text(n, "metadata", "name")}
	if strict.Get(n, "metadata") == nil {
		o.namespace, o.name = strict.Text(n, "namespace"), strict.Text(n, "name")
	}
	if group, _, of := strings.Cut(strict.Text(n, "apiVersion"), "/"); of {
		o.group = group
	}
	return o
}

// place is an object in a cluster, or a namespace.
type place struct {
	remote string
	object
}

func placeOf(remote string, o object) place {
	o.namespace = cmp.Or(o.namespace, corev1.NamespaceDefault)
	return place{remote, o}
}

func namespaceOf(remote, name string) place {
	return placeOf(remote, object{kind: "Namespace", name: name})
}

// makes records what an application applies, and the namespaces of its HelmReleases.
func (s steps) makes(a *Application) {
	add := func(p place) {
		if !slices.Contains(s.makers[p], a.Key()) {
			s.makers[p] = append(s.makers[p], a.Key())
		}
	}
	for _, o := range a.Objects {
		if of := objectOf(o.Node); of.kind != "Namespace" {
			add(placeOf(a.Remote, of))
		}
	}
	for _, r := range a.Releases {
		add(namespaceOf(r.Remote, r.TargetNamespace))
	}
}

// maker returns the key of the application that makes an object for which another one waits, or "" if none can. It is unknown if several may, or what the
// waiting one applies: a release or a custom resource.
func (s steps) maker(a *Application, o object) (key string, known bool) {
	list := s.makers[placeOf(a.Remote, o)]
	if len(list) == 0 && o.namespace != "" {
		list = s.makers[namespaceOf(a.Remote, o.namespace)]
	}
	switch {
	case len(list) == 1 && list[0] != a.Key():
		return list[0], true
	case len(list) > 0, o.namespace == "", len(a.Releases) > 0, a.Elsewhere != "", slices.ContainsFunc(a.Objects, isCustom):
		return "", false
	}
	return "", true
}

// healthChecks returns the operations that make a Kustomization's health checks pass here.
func (m Adaptation) healthChecks(n *yaml.Node) []operation {
	checks := strict.Get(n, "spec", "healthChecks")
	if !isKustomization(n) || checks == nil {
		return nil
	}
	const path = "/spec/healthChecks"
	switch kept := m.HealthChecks(checks); {
	case kept == checks:
		return nil
	case len(kept.Content) == 0:
		return []operation{{Op: "remove", Path: path}}
	default:
		return []operation{{"replace", path, kept}}
	}
}

// HealthChecks returns spec.healthChecks without objects that do not exist here, in served versions of Flux's APIs. It returns the list itself if nothing changes.
func (m Adaptation) HealthChecks(checks *yaml.Node) *yaml.Node {
	kept := &yaml.Node{Kind: yaml.SequenceNode}
	changed := false
	for _, check := range strict.List(checks) {
		switch is := served(check); {
		case m.gone[objectOf(check)] || isImage(check) || isOperator(check):
			changed = true
			continue
		case is != "":
			changed = true
			check = strict.Copy(check)
			strict.Set(check, "apiVersion", &yaml.Node{Kind: yaml.ScalarNode, Value: is})
		}
		kept.Content = append(kept.Content, check)
	}
	if !changed {
		return checks
	}
	return kept
}
