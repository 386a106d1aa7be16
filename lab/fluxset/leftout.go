package fluxset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"go.yaml.in/yaml/v3"
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
	applied  stage = iota
	ready          // in the eyes of Flux: applied, and if it waits, complete
	complete       // with everything in it
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

// steps are the applications by key, to find out which stages they reach.
type steps map[string]*Application

// needs returns what a step requires, as in kustomize-controller: a dependency must be ready, a parent only applied.
func (s steps) needs(of step) []need {
	a := s[of.key]
	if a == nil {
		return nil
	}
	var list []need
	switch of.stage {
	case applied:
		if a.Parent != "" {
			list = append(list, need{step{a.Parent, applied}, "part of"})
		}
		for _, on := range a.DependsOn {
			list = append(list, need{step{on, ready}, "depends on"})
		}
	case ready:
		list = append(list, need{step{of.key, applied}, ""})
		if a.Waits {
			list = append(list, need{step{of.key, complete}, ""})
		}
	case complete:
		list = append(list, need{step{of.key, applied}, ""})
		for _, o := range s.awaited(a) {
			switch o.group {
			case kustomizev1.GroupVersion.Group:
				list = append(list, need{step{o.namespace + "/" + o.name, ready}, "waits for"})
			case helmv2.GroupVersion.Group:
				if in := s.owner(o); in != "" {
					list = append(list, need{step{in, complete}, "waits for HelmRelease " + o.name + " of"})
				}
			}
		}
	}
	return list
}

// awaited returns the objects of other applications for which an application waits.
func (s steps) awaited(a *Application) []object {
	list := a.checks
	if a.waitsForAll {
		list = nil
		for _, o := range a.Objects {
			if isKustomization(o.Node) {
				list = append(list, objectOf(o.Node))
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(list), func(o object) bool {
		return o.kind == kustomizev1.KustomizationKind && o.namespace+"/"+o.name == a.Key()
	}) // as Flux
}

// owner returns the key of the application that applies a HelmRelease, or "".
func (s steps) owner(of object) string {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if slices.ContainsFunc(s[key].Releases, func(r Release) bool { return r.Namespace == of.namespace && r.Name == of.name }) {
			return key
		}
	}
	return ""
}

// fails reports whether a step itself fails.
func (s steps) fails(of step) bool {
	a := s[of.key]
	return a != nil && (a.Stalled || of.stage == complete && a.LeftOut != "")
}

// closure returns a step and everything that it requires.
func (s steps) closure(of step) []step {
	all := []step{of}
	for i := 0; i < len(all); i++ {
		for _, n := range s.needs(all[i]) {
			if !slices.Contains(all, n.step) {
				all = append(all, n.step)
			}
		}
	}
	return all
}

// leaveOut leaves out applications that require something of left-out ones, and sets Needs.
func (x *expander) leaveOut() {
	x.bind()
	x.leaveOutLocked()
	s := steps{}
	for _, list := range [][]Application{x.Roots, x.Applications} {
		for i := range list {
			s[list[i].Key()] = &list[i]
		}
	}
	why := map[string]string{}
	for key, a := range s {
		for _, of := range s.closure(step{key, complete}) {
			if on := s[of.key]; of.key != key && on != nil && (of.stage == complete || on.Elsewhere != "") && !slices.Contains(a.Needs, of.key) {
				a.Needs = append(a.Needs, of.key)
			}
		}
		if a.LeftOut == "" {
			why[key] = s.why(key)
		}
	}
	for key, reason := range why {
		s[key].LeftOut = reason
	}
}

// why returns why an application without a fault of its own cannot be complete, or "".
func (s steps) why(key string) string {
	for _, of := range []step{{key, applied}, {key, complete}} {
		for _, n := range s.needs(of) {
			if n.key != key && slices.ContainsFunc(s.closure(n.step), s.fails) {
				return fmt.Sprintf("%s %s, which is left out", n.how, s[n.key].Name)
			}
		}
	}
	return ""
}
