// Package leftout decides for which Applications of an estate lab does not wait, and why: what they need is unavailable or
// left out itself, or nothing provides it.
package leftout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"homelab/lab"
)

// Others returns the repositories and images that the estate's Applications need besides the lab's.
func Others(e *lab.Estate) []string {
	var list []string
	for _, a := range e.Applications {
		list = append(append(list, a.Others...), a.Pulls...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Refuse returns the error for left-out Applications of a marked estate, or nil if there are none. unavailable are the problems of Mark; what lab concluded to be left
// out for another reason counts, too, but not what the estate itself holds back.
func Refuse(e *lab.Estate, unavailable lab.Problems) error {
	leftOut := slices.Clone(unavailable)
	for _, a := range e.Applications {
		told := slices.ContainsFunc(unavailable, func(p lab.Problem) bool { return p.Position == a.At && strings.Contains(a.LeftOut, p.Message) })
		if a.LeftOut != "" && !a.Held && !a.Replaces && !told {
			leftOut = append(leftOut, lab.Problem{Position: a.At, Message: a.Name + ": " + a.LeftOut, Cure: "lab does not wait for it"})
		}
	}
	if len(leftOut) == 0 {
		return nil
	}
	return &lab.Error{Exit: lab.ExitInvalid, Code: "unavailable", Message: "parts of the estate are unavailable, nothing was touched", Cure: "without --strict lab up leaves them out", Problems: leftOut}
}

// Unsynced leaves out an Application that Argo CD does not sync.
func Unsynced(g *lab.Generated, why string) {
	g.LeftOut, g.Unsynced = cmp.Or(g.LeftOut, why), true
}

// Settle leaves out what needs left-out Applications, and notes why each is left out.
func Settle(e *lab.Estate) {
	dependents(e)
	note(e, nil)
}

// note notes why Applications are left out, except those already noted.
func note(e *lab.Estate, noted map[string]bool) {
	type cause struct {
		at  lab.Position
		why string
	}
	names := map[cause][]string{}
	var order []cause
	for _, a := range e.Applications {
		if a.LeftOut == "" || noted[a.Name] {
			continue
		}
		c := cause{a.At, a.LeftOut}
		if names[c] == nil {
			order = append(order, c)
		}
		names[c] = append(names[c], a.Name)
	}
	for _, c := range order {
		e.Notes = append(e.Notes, lab.Problem{Position: c.at, Message: strings.Join(names[c], ", ") + ": " + c.why, Cure: "lab does not wait for it"})
	}
}

// Mark marks and notes the Applications that need an unreachable repository, and returns them as problems.
func Mark(e *lab.Estate, unreachable map[string]error) lab.Problems {
	type cause struct {
		at   lab.Position
		what string
	}
	var causes []cause
	names, noted := map[cause][]string{}, map[string]bool{}
	for i := range e.Applications {
		a := &e.Applications[i]
		noted[a.Name] = a.LeftOut != ""
		for _, url := range slices.Concat(a.Others, a.Pulls) {
			err := unreachable[url]
			if err == nil {
				continue
			}
			a.Blocks = a.Blocks || slices.Contains(a.Pulls, url)
			a.Unsynced = a.Unsynced || slices.Contains(a.Others, url)
			what := fmt.Sprintf("%s is unavailable: %v", url, err)
			if r, mounted := e.Repository(url); mounted {
				what += fmt.Sprintf("; the mirror of %s is served as %s", r.Dir, lab.RepositoryPage(url))
			}
			a.LeftOut, noted[a.Name] = cmp.Or(a.LeftOut, what), true
			c := cause{a.At, what}
			if names[c] == nil {
				causes = append(causes, c)
			}
			names[c] = append(names[c], a.Name)
		}
	}
	dependents(e)
	if shared(e) {
		dependents(e)
	}
	var ps lab.Problems
	for _, c := range causes {
		ps = append(ps, lab.Problem{Position: c.at, Message: c.what, Cure: "needed by " + strings.Join(names[c], ", ")})
	}
	for _, p := range ps {
		p.Cure += ", which lab does not wait for"
		e.Notes = append(e.Notes, p)
	}
	note(e, noted)
	return ps
}

// dependents leaves out what needs left-out Applications, or kinds or objects that nothing provides, is in a later sync wave than one, or syncs such waves.
func dependents(e *lab.Estate) {
	last := map[string]int{} // wave
	byCluster, byName := onClusters(e), map[string]*lab.Generated{}
	for i := range e.Applications {
		a := &e.Applications[i]
		last[a.Folder], byName[a.Name] = max(last[a.Folder], a.Wave), a
	}
	leftOut := func(name string) bool {
		return byName[name] != nil && byName[name].LeftOut != "" && !byName[name].Drifts
	}
	// Argo CD also syncs what is left out as it is never healthy, such as definitions beside an unavailable image.
	exists := func(name string) bool {
		return e.Hub().Engine.Type != lab.EngineFlux && byName[name] != nil && !byName[name].Unsynced
	}
	unmet := func(n lab.Need) bool {
		return !slices.ContainsFunc(n.By, func(name string) bool { return !leftOut(name) || n.Exists && exists(name) })
	}
	for again := true; again; {
		again = false
		first, stopped := blocking(e), stopped(e)
		for i := range e.Applications {
			a := &e.Applications[i]
			if a.LeftOut != "" {
				continue
			}
			if i := slices.IndexFunc(a.Kinds, unmet); i >= 0 {
				Unsynced(a, a.Kinds[i].Why)
				a.Blocks, again = a.Blocks || !a.Unchecked, true
				continue
			}
			if object := absent(e, *a, byCluster[a.Cluster]); object != "" {
				a.LeftOut, again = "nothing in Git creates "+object+" on "+a.Cluster, true
				a.Blocks = a.Blocks || !a.Unchecked
				continue
			}
			if i := slices.IndexFunc(a.Waits, unmet); i >= 0 {
				a.LeftOut, a.Blocks, again = a.Waits[i].Why, true, true
				continue
			}
			if parent := stopped[a.Folder]; parent != "" {
				Unsynced(a, "below "+parent+", which is left out")
				again = true
				continue
			}
			for _, name := range a.Needs {
				if leftOut(name) {
					a.LeftOut, again = "needs "+name+", which is left out", true
				}
			}
			if b := first[a.Folder]; b != nil && a.LeftOut == "" && b.Wave < a.Wave {
				Unsynced(a, fmt.Sprintf("in sync wave %d, after %s, which is left out", a.Wave, b.Name))
				again = true
			}
			for _, folder := range a.Syncs {
				if b := first[folder]; b != nil && b.Wave < last[folder] && a.LeftOut == "" {
					a.LeftOut, a.Blocks, again = "its sync waits for "+b.Name+", which is left out", true, true
				}
			}
		}
	}
}

// stopped returns the folders that nothing syncs, each with the left-out Application that would.
func stopped(e *lab.Estate) map[string]string {
	synced, by := map[string]bool{}, map[string]string{}
	for _, a := range e.Applications {
		for _, folder := range a.Syncs {
			if a.LeftOut != "" && a.Unsynced {
				by[folder] = a.Name
			} else {
				synced[folder] = true
			}
		}
	}
	maps.DeleteFunc(by, func(folder, _ string) bool { return synced[folder] })
	return by
}

// onClusters returns the Applications of each cluster.
func onClusters(e *lab.Estate) map[string][]*lab.Generated {
	list := map[string][]*lab.Generated{}
	for i := range e.Applications {
		a := &e.Applications[i]
		list[a.Cluster] = append(list[a.Cluster], a)
	}
	return list
}

// absent returns an object that an Application needs and nothing creates: upstream, it was perhaps created by hand. Operators and what is unknown may
// create any.
func absent(e *lab.Estate, a lab.Generated, beside []*lab.Generated) string {
	c, known := e.Cluster(a.Cluster)
	if !known || c.Provider != lab.ProviderKind {
		return ""
	}
	for _, object := range a.Reads {
		if !slices.ContainsFunc(beside, func(o *lab.Generated) bool {
			return slices.Contains(o.Creates, object) && (o.LeftOut == "" || !o.Unsynced) || (o.LeftOut == "" || o.Drifts) && (o.Opaque || o.More || len(o.Kinds) > 0 && !o.Leads)
		}) {
			return object
		}
	}
	return ""
}

// blocking returns, for each folder, the left-out Application of the earliest wave that keeps later ones from starting.
func blocking(e *lab.Estate) map[string]*lab.Generated {
	first := map[string]*lab.Generated{}
	for i := range e.Applications {
		a := &e.Applications[i]
		if b := first[a.Folder]; a.Folder != "" && a.LeftOut != "" && a.Blocks && (b == nil || a.Wave < b.Wave) {
			first[a.Folder] = a
		}
	}
	return first
}

// shared leaves out the Applications that share objects with others that are synced, and reports whether there are any.
func shared(e *lab.Estate) bool {
	unsynced := map[string]bool{}
	for _, a := range e.Applications {
		unsynced[a.Name] = a.LeftOut != "" && a.Unsynced || a.Replaces
	}
	found := false
	for i := range e.Applications {
		a := &e.Applications[i]
		j := slices.IndexFunc(a.Shared, func(s lab.Share) bool { return !unsynced[s.With] })
		if j < 0 || a.LeftOut != "" {
			continue
		}
		a.LeftOut = "shares " + a.Shared[j].Object + " with " + a.Shared[j].With + ": Argo CD keeps only one of them in sync"
		a.Drifts, found = true, true
	}
	return found
}
