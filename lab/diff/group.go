package diff

import (
	"cmp"
	"fmt"
	"slices"
)

// Group is a change that several clusters have in common.
type Group struct {
	Change       // of the first one
	Apps   []App // that have it, the first one included
	Named  bool  // they differ by the names of their clusters
}

// Missing is the reason that applications cannot be compared.
type Missing struct {
	Unknown // of the first one
	Apps    []App
}

// group puts equal changes of the applications of an addon together. The order is that of addons, applications and objects.
func group(changes []Change) (groups []Group) {
	slices.SortStableFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.App.Addon, b.App.Addon), cmp.Compare(a.App.Cluster, b.App.Cluster), cmp.Compare(a.App.Name, b.App.Name), compareIDs(a.Object, b.Object))
	})
	type shape struct {
		addon       string
		kind        Kind
		group, of   string
		fields      int
		first, last string
	}
	at := map[shape][]int{}
	for _, c := range changes {
		s := shape{addon: c.App.Addon, kind: c.Kind, group: c.Object.Group, of: c.Object.Kind, fields: len(c.Fields)}
		if n := len(c.Fields); n > 0 {
			s.first, s.last = named(c.Fields[0].Path.String(), c.App.Cluster), named(c.Fields[n-1].Path.String(), c.App.Cluster)
		}
		known := false
		for _, i := range at[s] {
			g := &groups[i]
			if slices.ContainsFunc(g.Apps, func(a App) bool { return a.Cluster == c.App.Cluster }) {
				continue // another application of the cluster
			}
			same, exact := equal(g.Change, c)
			if same {
				g.Apps, g.Named, known = append(g.Apps, c.App), g.Named || !exact, true
				break
			}
		}
		if !known {
			at[s] = append(at[s], len(groups))
			groups = append(groups, Group{Change: c, Apps: []App{c.App}})
		}
	}
	return groups
}

// equal reports whether two changes are the same but for the names of their clusters, and whether without them.
func equal(a, b Change) (same, exact bool) {
	exact = true
	d := differ{a.App.Cluster, b.App.Cluster}
	alike := func(x, y string) bool {
		exact = exact && x == y
		return d.sameText(x, y)
	}
	values := func(x, y any) bool {
		if (differ{}).same(x, y) {
			return true
		}
		exact = false
		return d.same(x, y)
	}
	own := func(c Change) bool { return c.Object.Cluster == c.App.Cluster }
	same = (own(a) && own(b) || a.Object.Cluster == b.Object.Cluster) && alike(a.Object.Namespace, b.Object.Namespace) && alike(a.Object.Name, b.Object.Name) &&
		d.sameText(a.App.Name, b.App.Name) && d.sameText(a.From, b.From) && len(a.Random) == len(b.Random) &&
		slices.EqualFunc(a.Fields, b.Fields, func(f, g Field) bool {
			return f.Kind == g.Kind && alike(f.Path.String(), g.Path.String()) && values(f.Before, g.Before) && values(f.After, g.After)
		})
	return same, exact
}

func missing(unknown []Unknown) (list []Missing) {
	at := map[string]int{}
	for _, u := range unknown {
		key := fmt.Sprintf("%q", []string{u.App.Addon, named(u.Part, u.App.Cluster), named(u.Before.String(), u.App.Cluster), named(u.After.String(), u.App.Cluster)})
		if i, known := at[key]; known {
			list[i].Apps = append(list[i].Apps, u.App)
			continue
		}
		at[key] = len(list)
		list = append(list, Missing{u, []App{u.App}})
	}
	slices.SortStableFunc(list, func(a, b Missing) int { return cmp.Compare(a.App.Addon, b.App.Addon) })
	return list
}
