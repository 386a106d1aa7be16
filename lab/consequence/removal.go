package consequence

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"homelab/lab"
)

// handed returns why a unit is deleted although it is still desired: what generates or applies it is another one. It is "" if it is not.
func (f *foresight) handed(u, v *unit) string {
	if u.app.Set != v.app.Set && u.release == "" {
		return fmt.Sprintf("its Application moves from %s to %s: deleted by the former", setOf(u), setOf(v))
	}
	if h := u.holder; h != nil && f.fates[u.held] == Delete {
		return fmt.Sprintf("its %s is no longer in %s: deleted by that", u.kind(), h)
	}
	return ""
}

func setOf(u *unit) string {
	if u.app.Set == "" {
		return "a manifest"
	}
	return "ApplicationSet " + u.app.Set
}

// again adds the effects of a unit that is deleted, and desired again.
func (f *foresight) again(u, v *unit, why string) {
	if len(u.broken) > 0 || len(v.broken) > 0 {
		f.unknown(u, why+", and it cannot be rendered", slices.Concat(u.broken, v.broken)...)
		return
	}
	verdict := f.rules.deletes(u)
	f.fates[u.key()] = verdict.action
	for _, o := range u.objects {
		next, found := find(v.objects, o)
		switch {
		case !f.lasting(o):
		case verdict.action == Delete && f.rules.keeps(u, o, true) == "":
			if !found {
				f.lose(u, o, Delete, why, "", o.at())
			} else {
				f.lose(u, o, Recreate, why+", and created again", f.rules.gently(u), next.at())
			}
		case !found:
			f.effect(u, o, Orphan, why, "", o.at())
		case o.Hook != "":
			f.effect(v, o, Rerun, "hook "+o.Hook+": the engine runs it again", "", o.at())
		case !reflect.DeepEqual(o.content, next.content):
			f.update(v, o, next)
		}
	}
}

// gone adds the effects of a unit that the engine no longer has.
func (f *foresight) gone(u *unit) {
	if why, unknown := f.sets[u.app.Set]; unknown {
		f.unknown(u, why)
		return
	}
	if f.next[lab.SetName(u.app.Set)+"|"] != nil { // a set with an error deletes nothing
		f.fates[u.key()] = Refuse
		return
	}
	was := u
	if i := slices.IndexFunc(f.after, func(v *unit) bool { return u.app.Set != "" && v.app.Set == u.app.Set }); i >= 0 { // its set decides as it is then
		now := *u
		now.app.Kept, was = f.after[i].app.Kept, &now
	}
	verdict := f.rules.deletes(was)
	if verdict.action == Stay && !slices.ContainsFunc(f.after, func(v *unit) bool { return v.app.At.File == u.app.At.File }) {
		verdict = verdictOf(Unknown, verdict.reason+", unless that goes, too")
	}
	if h := u.holder; h != nil {
		fate, known := f.fates[u.held]
		above := f.fates[h.key()]
		switch {
		case above == Unknown:
			verdict = verdictOf(Unknown, "what applies it cannot be rendered")
		case above == Stay, above == Refuse, known && fate != Delete:
			verdict = verdictOf(Stay, h.String()+" does not remove its "+u.kind())
		}
	}
	if len(u.broken) > 0 && (verdict.action == Delete || verdict.action == Orphan) {
		f.unknown(u, "it goes, and cannot be rendered", u.broken...)
		return
	}
	f.fates[u.key()] = verdict.action
	if verdict.action == Stay || verdict.action == Unknown {
		f.effect(u, object{}, verdict.action, verdict.reason, "", u.app.At)
		return
	}
	for _, o := range u.objects {
		if f.lasting(o) {
			f.removed(u, o, verdict, true)
		}
	}
}

// fateOf is the key of the fate of an object of a unit.
func fateOf(u *unit, o map[string]any) string {
	return u.key() + "|" + text(o, "kind") + "|" + text(o, "metadata", "namespace") + "|" + text(o, "metadata", "name")
}

// removed adds the effect on an object that its unit no longer has, or that goes with it.
func (f *foresight) removed(u *unit, o object, v verdict, goes bool) {
	if v.action == Delete {
		if why := f.rules.keeps(u, o, goes); why != "" {
			v = verdictOf(Orphan, why)
		}
	}
	f.fates[fateOf(u, o.content)] = v.action
	to := f.will[o.key()]
	if to != nil && to.key() == u.key() { // it has become a hook
		to = nil
	}
	switch {
	case to != nil && v.action == Delete:
		f.lose(u, o, Recreate, "it moves: deleted and created again, unless the other is synced first", f.rules.gently(u), o.at())
		f.effects[len(f.effects)-1].To = to.String()
	case to != nil:
		next, _ := find(to.objects, o)
		f.effect(u, o, Update, "it moves", "", next.at())
		f.effects[len(f.effects)-1].To = to.String()
	case v.action == Delete:
		f.lose(u, o, Delete, v.reason, "", o.at())
	default:
		f.effect(u, o, v.action, v.reason, "", o.at())
	}
}

// lose is effect for an object that is deleted, with what is lost with it. Policies may keep it, which is not relied on where more is lost than the object.
func (f *foresight) lose(u *unit, o object, action Action, reason, cure string, at lab.Position) {
	f.effect(u, o, action, reason, cure, at)
	e := &f.effects[len(f.effects)-1]
	switch text(o.content, "kind") {
	case "Namespace":
		e.Loses = "everything in the namespace"
	case "PersistentVolumeClaim":
		e.Loses = "its data, unless the volume is retained"
	case definition:
		e.Loses = "all objects of its kind"
		if n := f.instances(o); n > 0 {
			e.Loses += fmt.Sprintf(", %d of the estate's among them", n)
		}
	}
	if refused, _ := f.denied(o.content, o, nil); refused != "" {
		e.Reason += ", which is refused: " + refused
		if e.Loses == "" {
			e.Action, e.Cure = Refuse, "have the policy leave out deletions"
		}
	}
	if e.Loses != "" && e.Cure == "" {
		e.Cure = f.rules.exempt()
	}
}

// instances counts the objects of a definition's kind in its cluster.
func (f *foresight) instances(crd object) int {
	n := 0
	for _, u := range f.before {
		for _, o := range u.objects {
			group, _, _ := strings.Cut(text(o.content, "apiVersion"), "/")
			if o.Cluster == crd.Cluster && group == text(crd.content, "spec", "group") && text(o.content, "kind") == text(crd.content, "spec", "names", "kind") {
				n++
			}
		}
	}
	return n
}
