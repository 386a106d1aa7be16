package needs

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
	g.LeftOut, g.State = cmp.Or(g.LeftOut, why), lab.Absent
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
			if slices.Contains(a.Others, url) {
				a.State = lab.Absent
			}
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

// dependents leaves out what needs left-out Applications, or what nothing provides, is in a later sync wave than one, or syncs such waves.
func dependents(e *lab.Estate) {
	last := map[string]int{} // wave
	byName := map[string]*lab.Generated{}
	for i := range e.Applications {
		a := &e.Applications[i]
		last[a.Folder], byName[a.Name] = max(last[a.Folder], a.Wave), a
	}
	works := func(name string) bool {
		a := byName[name]
		return a == nil || a.LeftOut == "" || a.State == lab.Drifts
	}
	applied := func(name string) bool { return works(name) || byName[name].State != lab.Absent }
	unmet := func(n lab.Need) bool {
		return !slices.ContainsFunc(n.By, works) && !slices.ContainsFunc(n.Synced, applied)
	}
	for again := true; again; {
		again = false
		first, stopped := blocking(e), stopped(e)
		for i := range e.Applications {
			a := &e.Applications[i]
			if a.LeftOut != "" {
				continue
			}
			if i := slices.IndexFunc(a.Lacks, unmet); i >= 0 {
				n := a.Lacks[i]
				a.LeftOut, a.State, a.Blocks, again = n.Why, n.State, a.Blocks || n.Blocks, true
				continue
			}
			if parent := stopped[a.Folder]; parent != "" {
				Unsynced(a, "below "+parent+", which is left out")
				again = true
				continue
			}
			for _, name := range a.Needs {
				if !works(name) {
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
			if a.LeftOut != "" && a.State == lab.Absent {
				by[folder] = a.Name
			} else {
				synced[folder] = true
			}
		}
	}
	maps.DeleteFunc(by, func(folder, _ string) bool { return synced[folder] })
	return by
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
		unsynced[a.Name] = a.LeftOut != "" && a.State == lab.Absent || a.Replaces
	}
	found := false
	for i := range e.Applications {
		a := &e.Applications[i]
		j := slices.IndexFunc(a.Shared, func(s lab.Share) bool { return !unsynced[s.With] })
		if j < 0 || a.LeftOut != "" {
			continue
		}
		a.LeftOut = "shares " + a.Shared[j].Object + " with " + a.Shared[j].With + ": Argo CD keeps only one of them in sync"
		a.State, found = lab.Drifts, true
	}
	return found
}
