package fluxset

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"homelab/lab/flux"
	"homelab/lab/fluxset/resourceset"
	"homelab/lab/needs"
	"homelab/lab/strict"
)

// stall leaves out an application that Flux cannot apply. The first reason counts.
func (a *Application) stall(why string) {
	a.LeftOut, a.Stalled = cmp.Or(a.LeftOut, why), true
}

// leaveOut leaves out an application because of its Kustomization, which stalls it, or of a HelmRelease in it.
func (a *Application) leaveOut(n *yaml.Node, why string) {
	a.LeftOut, a.Stalled = cmp.Or(a.LeftOut, why), a.Stalled || isKustomization(n)
}

// stage is how far an application gets.
type stage int

const (
	applied   stage = iota
	installed       // with its HelmReleases
	complete        // with all that it waits for
	ready           // in the eyes of Flux: applied, and if it waits, complete
)

// step is a stage of an application, by its key.
type step struct {
	key string
	stage
}

// need is a step that another one requires.
type need struct {
	step
	how string
}

// steps finds out which stages applications reach.
type steps struct {
	apps   map[string]*Application // by key
	owners map[string]string       // HelmRelease, NAMESPACE/NAME -> key of the application that applies it
	makers map[located][]string    // object or namespace -> keys of the applications that apply it, or have a HelmRelease in it
	known  map[step][]need         // found so far
	unsure string                  // HelmRelease that may lead to more Kustomizations
}

func newSteps(all iter.Seq[*Application]) steps {
	s := steps{apps: map[string]*Application{}, owners: map[string]string{}, makers: map[located][]string{}, known: map[step][]need{}}
	for a := range all {
		s.apps[a.Key()] = a
	}
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(s.apps))) { // the first one counts
		for _, r := range s.apps[key].Releases {
			s.owners[r.Namespace+"/"+r.Name] = key
		}
		s.makes(s.apps[key])
	}
	return s
}

// needs returns what a step requires, as in kustomize-controller and helm-controller: a dependency must be ready, a parent only applied.
func (s steps) needs(of step) []need {
	list, known := s.known[of]
	if !known {
		list = s.find(of)
		s.known[of] = list
	}
	return list
}

func (s steps) find(of step) []need {
	a := s.apps[of.key]
	if a == nil {
		return nil
	}
	at := func(stage stage) need { return need{step{of.key, stage}, ""} }
	var list []need
	switch of.stage {
	case applied:
		list = append(list, s.partOf(a)...)
		for _, on := range a.DependsOn {
			list = append(list, need{step{on, ready}, "depends on"})
		}
		for _, d := range a.dependsOn {
			if on, known := s.target(a, d); known && on.key != "" {
				list = append(list, need{on, "depends on " + d.String() + " of"})
			}
		}
	case installed:
		list = append(list, at(applied))
		for _, r := range a.Releases {
			for _, on := range r.dependsOn {
				list = append(list, need{step{s.owner(on), installed}, fmt.Sprintf("HelmRelease %s depends on %s", r.Name, on.name)})
			}
		}
	case complete:
		list = append(s.awaited(a), at(installed))
	case ready:
		list = append(list, at(applied))
		if a.Waits {
			list = append(list, at(complete))
		}
	}
	return list
}

// partOf returns what makes an application's own object exist.
func (s steps) partOf(a *Application) []need {
	switch {
	case s.apps[a.Parent] == nil:
		return nil
	case a.Release != "":
		return []need{{step{a.Parent, installed}, "part of the chart of HelmRelease " + a.Release}}
	}
	return []need{{step{a.Parent, applied}, "part of"}}
}

// awaited returns the objects for which an application waits.
func (a *Application) awaited() []object {
	if !a.waitsForAll {
		return a.checks
	}
	var list []object
	for _, o := range slices.Concat(a.Objects, a.operated) {
		if !ignored(o.Node) {
			list = append(list, objectOf(o.Node))
		}
	}
	return list
}

// awaited returns what an application waits for in others.
func (s steps) awaited(a *Application) []need {
	var list []need
	for _, o := range a.awaited() {
		switch key := o.namespace + "/" + o.name; {
		case o.group == kustomizev1.GroupVersion.Group && key != a.Key() && (s.apps[key] != nil || !a.waitsForAll): // as Flux
			list = append(list, need{step{key, ready}, "waits for"})
		case o.group == resourceset.Group && s.apps[o.kind+" "+key] != nil:
			list = append(list, need{step{o.kind + " " + key, ready}, "waits for"})
		case o.group == helmv2.GroupVersion.Group:
			list = append(list, need{step{s.owner(o), installed}, "waits for HelmRelease " + o.name})
		case !a.waitsForAll && a.mounted && !needs.IsFlux(o.group):
			if maker, known := s.maker(a, o); known {
				list = append(list, need{step{maker, installed}, "waits for " + o.kind + " " + o.name})
			}
		}
	}
	return list
}

// owner returns the key of the application that applies a HelmRelease, or "".
func (s steps) owner(of object) string { return s.owners[of.namespace+"/"+of.name] }

// fails reports whether a step itself fails, or nothing takes it.
func (s steps) fails(of step) bool {
	a := s.apps[of.key]
	return a == nil || !a.idle && (a.Stalled || of.stage == installed && a.LeftOut != "")
}

// closure returns a step and everything that it requires.
func (s steps) closure(of step) []step {
	all, seen := []step{of}, map[step]bool{of: true}
	for i := 0; i < len(all); i++ {
		for _, n := range s.needs(all[i]) {
			if !seen[n.step] {
				seen[n.step] = true
				all = append(all, n.step)
			}
		}
	}
	return all
}

// circular stalls applications that are applied only when they, or their releases, are ready.
func (s steps) circular() {
	for key, a := range s.apps {
		if slices.ContainsFunc(s.closure(step{key, applied}), func(of step) bool { return of.key == key && of.stage != applied }) {
			a.stall("depends on what depends on it or waits for it: spec.dependsOn")
		}
	}
}

// leaveOut leaves out applications that require something of left-out ones, and sets Needs.
func (x *expander) leaveOut() {
	x.bind()
	x.leaveOutUnread()
	s := newSteps(x.all())
	s.unsure = x.unsure()
	s.circular()
	x.late(s)
	x.undefined(s)
	why := map[string]string{}
	for key, a := range s.apps {
		if s.order(a); a.LeftOut == "" {
			why[key] = s.why(key)
		}
	}
	for key, reason := range why {
		s.apps[key].LeftOut = reason
	}
}

// unsure returns a HelmRelease with a chart in Git that may lead to more Kustomizations than are known, as only the cluster has its values, or "".
func (x *expander) unsure() string {
	for a := range x.all() {
		for _, r := range a.Releases {
			if r.Values == nil && r.Folder != "" && x.mentions(r, kustomizev1.GroupVersion.Group) {
				return r.Name
			}
		}
	}
	return ""
}

// order sets After, Needs and Certain of an application.
func (s steps) order(a *Application) {
	key := a.Key()
	a.Certain = true
	for _, of := range s.closure(step{key, applied}) {
		on := s.apps[of.key]
		a.Certain = a.Certain && of.stage != installed && on != nil && !on.Stalled && on.Elsewhere == "" && len(on.Undefined) == 0
		if of.key != key && !slices.Contains(a.After, of.key) {
			a.After = append(a.After, of.key)
		}
	}
	for _, of := range s.closure(step{key, complete}) {
		if on := s.apps[of.key]; of.key != key && on != nil && (of.stage == installed || on.Elsewhere != "" || len(on.Undefined) > 0 || of.stage == complete && len(on.Unbound) > 0) && !slices.Contains(a.Needs, of.key) {
			a.Needs = append(a.Needs, of.key)
		}
	}
}

// why returns why an application without a fault of its own cannot be complete, or "".
func (s steps) why(key string) string {
	for _, stage := range []stage{applied, installed, complete} {
		for _, n := range s.needs(step{key, stage}) {
			switch on := s.apps[n.key]; {
			case n.key == key || !slices.ContainsFunc(s.closure(n.step), s.fails):
			case on == nil && n.key == "":
				return n.how + ", which nothing in the repositories creates"
			case on == nil && s.unsure != "":
				return fmt.Sprintf("%s %s, which only the chart of HelmRelease %s may create: its values are unknown", n.how, n.key, s.unsure)
			case on == nil:
				return fmt.Sprintf("%s %s, which nothing in the repositories creates", n.how, n.key)
			case n.stage == installed:
				return fmt.Sprintf("%s of %s, which is left out", n.how, on.Name)
			default:
				return fmt.Sprintf("%s %s, which is left out", n.how, on.Name)
			}
		}
	}
	return ""
}

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

// located is an object in a cluster, or a namespace.
type located struct {
	remote string
	object
}

func locate(remote string, o object) located {
	o.namespace = cmp.Or(o.namespace, corev1.NamespaceDefault)
	return located{remote, o}
}

func namespaceOf(remote, name string) located {
	return locate(remote, object{kind: "Namespace", name: name})
}

// makes records what an application applies, and the namespaces of its HelmReleases.
func (s steps) makes(a *Application) {
	add := func(p located) {
		if !slices.Contains(s.makers[p], a.Key()) {
			s.makers[p] = append(s.makers[p], a.Key())
		}
	}
	for _, o := range slices.Concat(a.Objects, a.operated) {
		if of := objectOf(o.Node); of.kind != "Namespace" {
			add(locate(a.Remote, of))
		}
	}
	for _, r := range a.Releases {
		add(namespaceOf(r.Remote, r.TargetNamespace))
	}
}

// maker returns the key of the application that makes an object for which another one waits, or "" if none can. It is unknown if several may, or what the
// waiting one applies: a release or a custom resource.
func (s steps) maker(a *Application, o object) (key string, known bool) {
	if a.Remote == "" && o.namespace == flux.Namespace && o.kind == "Deployment" && strings.HasSuffix(o.name, "-controller") {
		return "", false // Flux's own, there before all
	}
	list := s.makers[locate(a.Remote, o)]
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
