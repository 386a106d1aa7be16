// Package consequence foresees what an engine does to the objects of clusters when an estate changes: what it creates, updates, deletes, leaves behind or recreates, what it
// cannot apply, and which pods restart. It is pure: both sides are models (package desired). What the engine does is held to recordings on real clusters
// (lab/e2e/plan_test.go).
package consequence

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/apiserver"
	"homelab/lab/desired"
	"homelab/lab/finding"
)

// Of returns the effects of a change, ordered by cluster, severity, application and object, and the reasons why some are unknown.
func Of(before, after State) ([]Effect, lab.Problems) {
	f := foresight{
		rules: rulesOf(after.Engine), left: map[string]bool{}, fates: map[string]Action{}, definitions: map[string]map[schema.GroupKind]map[string]any{}, schemas: map[string]*apiserver.Definition{},
		made: map[string][]desired.Object{}, sets: after.Sets, policies: map[string][2]*apiserver.Policies{},
	}
	for _, c := range before.Clusters {
		if !slices.Contains(after.Clusters, c) {
			f.add(Effect{
				Cluster: c, Action: Stay, Reason: "it is no longer in the estate: lab up keeps it, and lab up --prune deletes it", Loses: "with --prune, everything in it",
				Cure: "undo the change; a cluster with another name is another one",
			})
			why, unknown := after.Unknown[c]
			f.left[c] = unknown || after.Each // an engine whose files are gone keeps what it applied
			if unknown {
				f.add(Effect{Cluster: c, Action: Unknown, Reason: why})
			}
		}
	}
	for _, c := range after.Clusters {
		if !slices.Contains(before.Clusters, c) {
			f.add(Effect{Cluster: c, Action: Create, Reason: "it is new"})
		}
	}
	f.unchanged = unchanged(before, after)
	f.before, f.after = f.units(before), f.units(after)
	if !sameKeys(f.before, f.after) { // an object may move from or to what is unchanged
		f.fill(f.before, f.after)
	}
	hold(f.before)
	hold(f.after)
	f.former, f.next = byKey(f.before), byKey(f.after)
	f.was, f.will = f.owners(f.before), f.owners(f.after)
	for _, u := range slices.SortedStableFunc(slices.Values(f.before), func(a, b *unit) int { return cmp.Compare(a.depth, b.depth) }) { // what applies others first
		f.unit(u)
	}
	f.created()
	slices.SortStableFunc(f.effects, func(a, b Effect) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Action.Rank(), b.Action.Rank()), cmp.Compare(a.Application, b.Application), cmp.Compare(a.Release, b.Release), cmp.Compare(a.Object, b.Object))
	})
	return f.effects, f.problems
}

type foresight struct {
	rules         rules
	before, after []*unit
	former, next  map[string]*unit // by key, before and after
	was, will     map[string]*unit // object -> unit
	left          map[string]bool  // clusters that left, whose applications are not compared
	unchanged     map[string]bool  // applications
	fates         map[string]Action
	definitions   map[string]map[schema.GroupKind]map[string]any // by cluster
	schemas       map[string]*apiserver.Definition
	made          map[string][]desired.Object       // of unchanged applications
	sets          map[string]string                 // State.Sets, after
	policies      map[string][2]*apiserver.Policies // by cluster, before and after; nil for none
	effects       []Effect
	problems      lab.Problems
}

func (f *foresight) add(e Effect) { f.effects = append(f.effects, e) }

// unknown adds that the effects on a unit are unknown, with the reasons.
func (f *foresight) unknown(u *unit, reason string, why ...lab.Problem) {
	f.fates[u.key()] = Unknown
	f.effect(u, object{}, Unknown, reason, "", u.app.At)
	for _, p := range why {
		if !slices.Contains(f.problems, p) {
			f.problems = append(f.problems, p)
		}
	}
}

// unit adds the effects on the objects that a unit had.
func (f *foresight) unit(u *unit) {
	v := f.next[u.key()]
	if v == nil {
		f.gone(u)
		return
	}
	if v.rejected() {
		if !u.rejected() {
			f.fates[u.key()] = Refuse
			f.effect(u, object{}, Refuse, "rejected, and what it has applied stays: "+v.app.LeftOut, "", v.app.At)
		}
		return
	}
	if why := f.handed(u, v); why != "" {
		f.again(u, v, why)
		return
	}
	if f.unchanged[u.app.Name] || u.same(v) {
		return
	}
	if v.fixed(u) {
		f.unknown(u, v.app.Fixed+", and what it has is not rendered with the change")
		return
	}
	if len(u.broken) > 0 || len(v.broken) > 0 {
		f.unknown(u, "it cannot be rendered", slices.Concat(u.broken, v.broken)...)
		return
	}
	replaced := f.rules.replaced(u, v)
	changed := replaced != ""
	for _, o := range u.objects {
		next, found := find(v.objects, o)
		switch {
		case o.Hook != "": // neither engine acts because a hook alone differs
		case !found:
			changed = changed || f.rules.tracks(o)
			f.removed(u, o, f.rules.prunes(u, v), false)
		case replaced != "":
			f.lose(u, o, Recreate, replaced, f.rules.gently(u), next.at())
		case !reflect.DeepEqual(o.content, next.content):
			changed = true
			f.update(v, o, next)
		}
	}
	changed = changed || slices.ContainsFunc(v.objects, func(o object) bool { return f.was[o.key()] == nil && o.Hook == "" })
	for _, o := range v.objects {
		if o.Hook != "" && changed && f.rules.runs(o.Hook) {
			f.effect(v, o, Rerun, "hook "+o.Hook+": the engine runs it again", "", o.at())
		}
	}
}

// lasting reports whether an object stays in its cluster: all but hooks that do not run at a sync, or that are deleted once they have run.
func (f *foresight) lasting(o object) bool {
	return o.Hook == "" || f.rules.runs(o.Hook) && f.rules.stays(o)
}

// update adds the effect of another content.
func (f *foresight) update(u *unit, o, next object) {
	refused, stored := f.change(o, next)
	ignored, forced := f.rules.ignores(next), f.rules.forces(u, next, refused != "")
	switch {
	case ignored != "":
		f.effect(u, o, Stay, ignored, "", next.at())
		return
	case forced != "" && f.refusedCreate(next) == "":
		if refused != "" {
			forced = refused + "; " + forced
		}
		if denied, _ := f.denied(nil, next, next.content); denied != "" {
			forced += "; its creation is refused: " + denied
		}
		f.lose(u, o, Recreate, forced, "", next.at())
		return
	case refused != "":
		f.effect(u, o, Refuse, refused, f.rules.refused(), next.at())
		return
	case f.deniedEffect(u, o.content, next, stored):
		return
	}
	if restarts(o.content, stored) {
		f.effect(u, o, Restart, "its pods' template changes", "", next.at())
		return
	}
	f.effect(u, o, Update, "", "", next.at())
}

// deniedEffect adds that policies refuse an object, or may. It reports whether they do.
func (f *foresight) deniedEffect(u *unit, was map[string]any, o object, stored map[string]any) bool {
	refused, unknown := f.denied(was, o, stored)
	switch {
	case refused != "":
		f.effect(u, o, Refuse, refused, "change the object, or what the policy asks for", o.at())
	case unknown != "":
		f.effect(u, o, Unknown, unknown, "", o.at())
	}
	return refused+unknown != ""
}

// created adds the objects that are new.
func (f *foresight) created() {
	for _, u := range f.after {
		former := f.former[u.key()]
		if u.rejected() && former == nil {
			reason := "rejected"
			if slices.ContainsFunc(f.before, func(b *unit) bool { return b.app.Set != "" && lab.SetName(b.app.Set) == u.app.Name }) {
				reason = "nothing of it is deleted"
			}
			f.effect(u, object{}, Refuse, reason+": "+u.app.LeftOut, "", u.app.At)
		}
		if former != nil && u.fixed(former) {
			continue
		}
		if len(u.broken) > 0 {
			if former == nil {
				f.unknown(u, "it is new, and cannot be rendered", u.broken...)
			}
			continue
		}
		f.leftOut(u)
		for _, o := range u.objects {
			if (o.Hook == "" || former == nil && f.lasting(o)) && f.was[o.key()] == nil {
				if refused := f.refusedCreate(o); refused != "" {
					f.effect(u, o, Refuse, refused, "", o.at())
					continue
				}
				if !f.deniedEffect(u, nil, o, o.content) {
					f.effect(u, o, Create, "", "", o.at())
				}
			}
		}
	}
}

// leftOut says that an application is not synced, or not as it should be, for a reason that it did not have.
func (f *foresight) leftOut(v *unit) {
	why := v.app.LeftOut
	if u := f.former[v.key()]; why == "" || strings.HasSuffix(why, lab.LeftOutToo) || v.release != "" || v.rejected() || u != nil && u.app.LeftOut == why {
		return
	}
	f.problems = append(f.problems, lab.Problem{Code: finding.LeftOut, Position: v.app.At, Message: v.app.Name + ": " + why})
}

func (f *foresight) effect(u *unit, o object, action Action, reason, cure string, at lab.Position) {
	e := Effect{Cluster: cmp.Or(o.Cluster, u.app.Cluster), Application: u.app.Name, Release: u.release, Action: action, Reason: reason, Cure: cure, At: at}
	if o.content != nil {
		e.Object = o.ID()
	}
	f.add(e)
}

func (o object) at() lab.Position { return lab.Position{File: o.File, Line: o.Line} }

func find(in []object, o object) (object, bool) {
	i := slices.IndexFunc(in, func(x object) bool { return x.key() == o.key() && x.Hook == o.Hook })
	if i < 0 {
		return object{}, false
	}
	return in[i], true
}

// text returns a text in nested mappings, or "".
func text(m map[string]any, path ...string) string {
	s, _ := get(m, path...).(string)
	return s
}

// get returns a value in nested mappings, or nil.
func get(m map[string]any, path ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(m, path...) // only a mapping has fields
	return v
}

// annotation returns a list in an annotation, without spaces.
func annotation(o object, key string) []string {
	metadata, _ := o.content["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	value, _ := annotations[key].(string)
	var list []string
	for part := range strings.SplitSeq(value, ",") {
		list = append(list, strings.TrimSpace(part))
	}
	return list
}
