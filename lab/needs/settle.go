package needs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/finding"
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

// Refuse returns the error for left-out and doubtful Applications of a marked estate, or nil if there are none. unavailable are the problems of Mark; what lab concluded for
// another reason counts, too, but not what the estate itself holds back.
func Refuse(e *lab.Estate, unavailable lab.Problems) error {
	all := slices.Clone(unavailable)
	for _, a := range e.Applications {
		reported := slices.ContainsFunc(unavailable, func(p lab.Problem) bool { return p.Position == a.At && strings.Contains(a.LeftOut, p.Message) })
		if why, consequence := verdict(a); why != "" && !a.Held && !a.Replaces && !reported {
			all = append(all, lab.Problem{Code: finding.LeftOut, Position: a.At, Message: a.Name + ": " + why, Cure: consequence})
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &lab.Error{Exit: lab.ExitInvalid, Code: "unavailable", Message: "parts of the estate are unavailable, nothing was touched", Cure: "without --strict lab up leaves them out, or waits for them", Problems: all}
}

// verdict returns why an Application is left out or doubtful, and what lab does about it; "" for neither.
func verdict(a lab.Generated) (why, consequence string) {
	if a.LeftOut == "" && a.Doubt != "" {
		return a.Doubt, "lab waits for it: provide what it lacks, or it does not converge"
	}
	return a.LeftOut, "lab does not wait for it"
}

// Unsynced leaves out an Application that Argo CD does not sync.
func Unsynced(g *lab.Generated, why string) {
	g.LeftOut, g.State = cmp.Or(g.LeftOut, why), lab.Absent
}

// Settle leaves out what needs left-out Applications, doubts the estate's own with what nothing in its files provides, and notes why.
func Settle(e *lab.Estate) {
	dependents(e)
	doubts(e)
	note(e, nil)
}

// doubts records what the estate's own Applications lack. It may come from elsewhere, such as from a hand or another tool, so lab waits for them.
func doubts(e *lab.Estate) {
	all := named(e)
	for i := range e.Applications {
		a := &e.Applications[i]
		if i := slices.IndexFunc(a.Lacks, all.unmet); i >= 0 && !a.Mounted {
			a.Doubt = cmp.Or(a.Doubt, a.Lacks[i].Why)
		}
	}
}

// cause is why some Applications are left out or doubtful.
type cause struct {
	at               lab.Position
	why, consequence string
}

// causes are the names of the Applications of each cause, in the order of the first.
type causes struct {
	order []cause
	names map[cause][]string
}

func (c *causes) add(of cause, name string) {
	if c.names[of] == nil {
		c.order = append(c.order, of)
	}
	c.names[of] = append(c.names[of], name)
}

// note notes why Applications are left out or doubtful, except what was noted of them already.
func note(e *lab.Estate, noted map[string]string) {
	list := causes{names: map[cause][]string{}}
	for _, a := range e.Applications {
		if why, consequence := verdict(a); why != noted[a.Name] && !a.Noted {
			list.add(cause{a.At, why, consequence}, a.Name)
		}
	}
	for _, c := range list.order {
		e.Notes = append(e.Notes, lab.Problem{Code: finding.LeftOut, Position: c.at, Message: strings.Join(list.names[c], ", ") + ": " + c.why, Cure: c.consequence})
	}
}

// Mark marks and notes the Applications that need an unreachable repository, and returns them as problems.
func Mark(e *lab.Estate, unreachable map[string]error) lab.Problems {
	list, noted := causes{names: map[cause][]string{}}, map[string]string{}
	for i := range e.Applications {
		a := &e.Applications[i]
		noted[a.Name], _ = verdict(*a)
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
			a.LeftOut = cmp.Or(a.LeftOut, what)
			noted[a.Name] = a.LeftOut
			list.add(cause{a.At, what, ""}, a.Name)
		}
	}
	dependents(e)
	if shared(e) {
		dependents(e)
	}
	doubts(e)
	var ps lab.Problems
	for _, c := range list.order {
		p := lab.Problem{Code: finding.NotHere, Position: c.at, Message: c.why, Cure: "needed by " + strings.Join(list.names[c], ", ")}
		ps = append(ps, p)
		p.Cure += ", which lab does not wait for"
		e.Notes = append(e.Notes, p)
	}
	note(e, noted)
	return ps
}

// applications are those of an estate, by name.
type applications map[string]*lab.Generated

func named(e *lab.Estate) applications {
	all := applications{}
	for i := range e.Applications {
		all[e.Applications[i].Name] = &e.Applications[i]
	}
	return all
}

// works reports whether lab waits for an Application, or could.
func (m applications) works(name string) bool {
	a := m[name]
	return a == nil || a.LeftOut == "" || a.State == lab.Drifts
}

// unmet reports whether nothing provides what an Application needs.
func (m applications) unmet(n lab.Need) bool {
	synced := func(name string) bool { return m.works(name) || m[name].State != lab.Absent }
	return !slices.ContainsFunc(n.By, m.works) && !slices.ContainsFunc(n.Synced, synced)
}

// dependents leaves out what needs left-out Applications, those of mounted repositories that lack what nothing provides, and what is in a later sync wave than one or syncs
// such waves.
func dependents(e *lab.Estate) {
	last, all := map[string]int{}, named(e) // wave
	for _, a := range all {
		last[a.Folder] = max(last[a.Folder], a.Wave)
	}
	for again := true; again; {
		again = false
		first, stopped := blocking(e), stopped(e)
		for i := range e.Applications {
			a := &e.Applications[i]
			if a.LeftOut != "" {
				continue
			}
			if i := slices.IndexFunc(a.Lacks, all.unmet); i >= 0 && a.Mounted {
				n := a.Lacks[i]
				a.LeftOut, a.State, a.Blocks, again = n.Why, n.State, a.Blocks || n.Blocks, true
				continue
			}
			if parent := stopped[a.Folder]; parent != "" {
				Unsynced(a, "below "+parent+lab.LeftOutToo)
				again = true
				continue
			}
			for _, name := range a.Needs {
				if !all.works(name) {
					a.LeftOut, again = "needs "+name+lab.LeftOutToo, true
				}
			}
			if b := first[a.Folder]; b != nil && a.LeftOut == "" && b.Wave < a.Wave {
				Unsynced(a, fmt.Sprintf("in sync wave %d, after %s", a.Wave, b.Name)+lab.LeftOutToo)
				again = true
			}
			for _, folder := range a.Syncs {
				if b := first[folder]; b != nil && b.Wave < last[folder] && a.LeftOut == "" {
					a.LeftOut, a.Blocks, again = "its sync waits for "+b.Name+lab.LeftOutToo, true, true
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

// shared leaves out the Applications of mounted repositories that share objects with others that are synced, doubts the estate's own, and reports whether any is left out.
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
		why := "shares " + a.Shared[j].Object + " with " + a.Shared[j].With + ": Argo CD keeps only one of them in sync"
		if !a.Mounted {
			a.Doubt = cmp.Or(a.Doubt, why)
			continue
		}
		a.LeftOut, a.State, found = why, lab.Drifts, true
	}
	return found
}
