package estate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/render"
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

// Refuse returns the error for left-out Applications, or nil if there are none.
func Refuse(leftOut lab.Problems) error {
	if len(leftOut) == 0 {
		return nil
	}
	return &lab.Error{Exit: lab.ExitInvalid, Code: "unavailable", Message: "parts of the estate are unavailable, nothing was touched", Cure: "without --strict lab up leaves them out", Problems: leftOut}
}

// leaveOut sets why lab does not wait for an Application, if so. above is the manually synced application above it.
func (l *loader) leaveOut(g *lab.Generated, app *appset.Template, above string) {
	switch {
	case above != "":
		g.LeftOut = "below " + above + ", which is synced manually"
	case l.replaces(app):
		g.LeftOut, g.Replaces = replacesEngine, true
	case hasPlugin(app):
		g.LeftOut = "rendered by a plugin, which the lab's engine does not have"
	case !app.Spec.Automated():
		g.LeftOut, g.Blocks = "synced manually: spec.syncPolicy.automated is not set", true
	default:
		g.LeftOut = l.forbidden(app, g.Cluster)
		g.Blocks = g.LeftOut != ""
	}
}

// hasPlugin reports whether Argo CD renders a source with a config management plugin.
func hasPlugin(app *appset.Template) bool {
	return slices.ContainsFunc(app.Spec.All(), func(s appset.Source) bool {
		return s.Plugin != nil && s.Kustomize == nil && s.Helm == nil && s.Directory == nil
	})
}

// fetches adds the repositories that the engine fetches to render a folder.
func (l *loader) fetches(g *lab.Generated, r *lab.Repository, ours bool, source appset.Source) {
	if !ours || source.Chart != "" || source.Path == "" {
		return
	}
	for _, url := range render.Fetches(render.Source{FS: l.tree(r, source.TargetRevision), Source: source}) {
		if _, mounted := l.source(url); !mounted && !slices.Contains(g.Others, url) {
			g.Others = append(g.Others, url)
		}
	}
}

// noteLeftOut notes why Applications other than known ones are left out.
func noteLeftOut(e *lab.Estate, known map[string]bool) {
	type cause struct {
		at  lab.Position
		why string
	}
	names := map[cause][]string{}
	var order []cause
	for _, a := range e.Applications {
		if a.LeftOut == "" || known[a.Name] {
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

// LeaveOut marks and notes the Applications that need an unreachable repository, and returns them as problems.
func LeaveOut(e *lab.Estate, unreachable map[string]error) lab.Problems {
	type cause struct {
		at   lab.Position
		what string
	}
	var causes []cause
	names, known := map[cause][]string{}, map[string]bool{}
	for i := range e.Applications {
		a := &e.Applications[i]
		known[a.Name] = a.LeftOut != ""
		for _, url := range slices.Concat(a.Others, a.Pulls) {
			err := unreachable[url]
			if err == nil {
				continue
			}
			a.Blocks = a.Blocks || slices.Contains(a.Pulls, url)
			what := fmt.Sprintf("%s is unavailable: %v", url, err)
			if r, mounted := e.Repository(url); mounted {
				what += fmt.Sprintf("; the mirror of %s is served as %s", r.Dir, lab.RepositoryPage(url))
			}
			a.LeftOut, known[a.Name] = cmp.Or(a.LeftOut, what), true
			c := cause{a.At, what}
			if names[c] == nil {
				causes = append(causes, c)
			}
			names[c] = append(names[c], a.Name)
		}
	}
	leaveOutDependents(e)
	var ps lab.Problems
	for _, c := range causes {
		ps = append(ps, lab.Problem{Position: c.at, Message: c.what, Cure: "needed by " + strings.Join(names[c], ", ")})
	}
	for _, p := range ps {
		p.Cure += ", which lab does not wait for"
		e.Notes = append(e.Notes, p)
	}
	noteLeftOut(e, known)
	return ps
}

// leaveOutDependents leaves out what needs left-out Applications or kinds of them, is in a later sync wave than one, or syncs such waves.
func leaveOutDependents(e *lab.Estate) {
	last := map[string]int{} // wave
	for _, a := range e.Applications {
		last[a.Folder] = max(last[a.Folder], a.Wave)
	}
	for again := true; again; {
		again = false
		first := blocking(e)
		for i := range e.Applications {
			a := &e.Applications[i]
			if a.LeftOut != "" {
				continue
			}
			for _, name := range a.Needs {
				if leftOut(e, name) {
					a.LeftOut, again = "needs "+name+", which is left out", true
				}
			}
			for _, kind := range a.Kinds {
				if a.LeftOut == "" && !slices.ContainsFunc(kind.By, func(name string) bool { return !leftOut(e, name) }) {
					a.LeftOut, again = kind.Why, true
				}
			}
			if b := first[a.Folder]; b != nil && a.LeftOut == "" && b.Wave < a.Wave {
				a.LeftOut, again = fmt.Sprintf("in sync wave %d, after %s, which is left out", a.Wave, b.Name), true
			}
			for _, folder := range a.Syncs {
				if b := first[folder]; b != nil && b.Wave < last[folder] && a.LeftOut == "" {
					a.LeftOut, a.Blocks, again = "its sync waits for "+b.Name+", which is left out", true, true
				}
			}
		}
	}
}

func leftOut(e *lab.Estate, name string) bool {
	i := slices.IndexFunc(e.Applications, func(a lab.Generated) bool { return a.Name == name })
	return i >= 0 && e.Applications[i].LeftOut != ""
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
