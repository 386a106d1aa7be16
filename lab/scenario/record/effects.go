package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/fieldpath"
	"homelab/lab/scenario"
)

// Bounds of what one expectation names.
const (
	maxApplications = 4
	maxObjects      = 3
	maxFields       = 3
)

// effect is what was seen to follow an action: the checks of an expectation, what the first is about, and when the last became true.
type effect struct {
	checks []pairs
	about  string
	last   time.Time
}

func (e *effect) add(s scenario.Subject, at time.Time, check pairs) {
	if len(e.checks) == 0 {
		e.about = s.String()
	}
	e.checks = append(e.checks, check)
	if at.After(e.last) {
		e.last = at
	}
}

// effects compares the lab before an action and before the next.
func (a *action) effects() effect {
	var e effect
	owners := a.own(&e)
	a.others(&e, owners)
	a.applications(&e, owners)
	return e
}

type place struct{ cluster, namespace string }

// own adds what became of the object that was changed by hand.
func (a *action) own(e *effect) map[place]bool {
	owners := map[place]bool{}
	if a.subject == (scenario.Subject{}) {
		return owners
	}
	owners[place{a.subject.Cluster, a.subject.Namespace}] = true
	check := pairs{{"object", ref(a.subject)}}
	now, there := a.after.objects[a.subject]
	switch {
	case !there:
		e.add(a.subject, a.at, append(check, pair{"absent", true}))
	case a.verb != "patch":
		e.add(a.subject, now.at, check)
	default:
		var has pairs
		for _, path := range a.paths {
			at, err := fieldpath.Parse(path)
			if err != nil {
				continue
			}
			value, set := at.Get(now.object)
			switch {
			case !set || value == nil:
				has = append(has, pair{path, pairs{{"exists", false}}})
			default:
				has = append(has, pair{path, expected(value)})
			}
		}
		e.add(a.subject, now.at, append(check, pair{"has", has}))
	}
	return owners
}

// expected writes a value as a condition: a mapping would be a fragment.
func expected(value any) any {
	if _, ok := value.(map[string]any); ok {
		return pairs{{"is", value}}
	}
	return value
}

// others adds the objects that came, went or have another specification.
func (a *action) others(e *effect, owners map[place]bool) {
	subjects := maps.Clone(a.before.objects)
	maps.Copy(subjects, a.after.objects)
	added := 0
	for _, s := range slices.SortedFunc(maps.Keys(subjects), byName) {
		was, had := a.before.objects[s]
		now, there := a.after.objects[s]
		if s == a.subject || engines(s) || s.Kind == "ConfigMap" && s.Name == "kube-root-ca.crt" {
			continue
		}
		check := pairs{{"object", ref(s)}}
		at := now.at
		switch {
		case !had:
		case !there:
			check, at = append(check, pair{"absent", true}), a.at
		default:
			has := fields(was.object, now.object)
			if len(has) == 0 {
				continue
			}
			check = append(check, pair{"has", has})
		}
		owners[place{s.Cluster, s.Namespace}] = true
		if added++; added <= maxObjects {
			e.add(s, at, check)
		}
	}
	if left := added - maxObjects; left > 0 {
		a.comments = append(a.comments, fmt.Sprintf("%d more objects followed", left))
	}
}

// engines reports whether an object is an engine's own, which is seen as an application.
func engines(s scenario.Subject) bool {
	return strings.HasPrefix(s.APIVersion, "argoproj.io/") || strings.Contains(s.APIVersion, ".toolkit.fluxcd.io/")
}

// fields returns the first fields of a specification that differ.
func fields(was, is map[string]any) pairs {
	var has pairs
	for _, key := range []string{"spec", "data"} {
		for _, c := range differ(key, was[key], is[key]) {
			switch {
			case len(has) == maxFields:
				return has
			case !c.there || c.value == nil:
				has = append(has, pair{c.path, pairs{{"exists", false}}})
			default:
				has = append(has, pair{c.path, expected(c.value)})
			}
		}
	}
	return has
}

// applications adds those that changed, and those whose objects did.
func (a *action) applications(e *effect, owners map[place]bool) {
	subjects := maps.Clone(a.before.apps)
	maps.Copy(subjects, a.after.apps)
	var any, revised []scenario.Subject
	for _, s := range slices.SortedFunc(maps.Keys(subjects), byName) {
		was, had := a.before.apps[s]
		now, there := a.after.apps[s]
		x, y := was.app, now.app
		owner := there && owners[place{y.Cluster, y.Namespace}]
		switch {
		case had != there, x.Version != y.Version, x.Sync != y.Sync, x.Health != y.Health, x.Heals != y.Heals, owner && (a.commit != "" || now.at.After(a.at)):
			any = append(any, s)
		case a.commit != "" && x.Revision != y.Revision && y.Revision == a.commit:
			revised = append(revised, s)
		}
	}
	if len(any) == 0 && len(revised) > 0 {
		any = revised[:1] // that it was followed
	}
	if left := len(any) - maxApplications; left > 0 {
		a.comments = append(a.comments, fmt.Sprintf("%d more applications followed", left))
		any = any[:maxApplications]
	}
	for _, s := range any {
		now, there := a.after.apps[s]
		check := pairs{{"application", applicationOf(s)}}
		if !there {
			e.add(s, a.at, append(check, pair{"absent", true}))
			continue
		}
		was := a.before.apps[s].app
		if now.app.Version != "" && was.Version != now.app.Version {
			check = append(check, pair{"version", now.app.Version})
		}
		check = append(check, pair{"sync", scenario.SyncWord(now.app.Sync)})
		if now.app.Sync == "Synced" {
			check = append(check, pair{"health", scenario.HealthWord(now.app.Health)})
		}
		if was.Heals != now.app.Heals && was.Name != "" {
			check = append(check, pair{"heals", now.app.Heals})
		}
		if a.commit != "" && now.app.Revision == a.commit {
			check = append(check, pair{"revision", raw("${commit}")})
		}
		e.add(s, now.at, check)
	}
}

func applicationOf(s scenario.Subject) pairs {
	list := pairs{{"cluster", s.Cluster}, {"addon", s.Addon}}
	if s.Name != "" && s.Name != lab.ApplicationName(s.Cluster, s.Addon) {
		list = append(list, pair{"name", s.Name})
	}
	return list
}

func byName(a, b scenario.Subject) int {
	return strings.Compare(a.String()+a.Namespace, b.String()+b.Namespace)
}

// finish drops deletions that were an effect of the action before: what a commit or a label removes, and nothing makes again.
func (r *Recording) finish() []*action {
	var list []*action
	for i, a := range r.actions {
		a.after = r.end
		if i+1 < len(r.actions) {
			a.after = r.actions[i+1].before
		}
		if n := len(list); a.deleted && n > 0 && list[n-1].subject == (scenario.Subject{}) {
			if _, again := a.after.objects[a.subject]; !again {
				list[n-1].after = a.after
				continue
			}
		}
		list = append(list, a)
	}
	return list
}
