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

// Others returns the repositories that the estate's Applications need besides the lab's.
func Others(e *lab.Estate) []string {
	var list []string
	for _, a := range e.Applications {
		list = append(list, a.Others...)
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

// leftOut returns why lab does not wait for an Application, or "", and whether the engine must not sync it as it would be replaced. above is the manually synced
// application above it.
func (l *loader) leftOut(app *appset.Template, cluster, above string) (why string, replaces bool) {
	switch {
	case above != "":
		return "below " + above + ", which is synced manually", false
	case l.replaces(app):
		return replacesEngine, true
	case hasPlugin(app):
		return "rendered by a plugin, which the lab's engine does not have", false
	case !app.Spec.Automated():
		return "synced manually: spec.syncPolicy.automated is not set", false
	}
	return l.forbidden(app, cluster), false
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

func (l *loader) noteLeftOut() {
	type cause struct {
		at  lab.Position
		why string
	}
	names := map[cause][]string{}
	var order []cause
	for _, a := range l.estate.Applications {
		if a.LeftOut == "" {
			continue
		}
		c := cause{a.At, a.LeftOut}
		if names[c] == nil {
			order = append(order, c)
		}
		names[c] = append(names[c], a.Name)
	}
	for _, c := range order {
		l.note(c.at, strings.Join(names[c], ", ")+": "+c.why, "lab does not wait for it")
	}
}

// LeaveOut marks and notes the Applications that need an unreachable repository, and returns them as problems.
func LeaveOut(e *lab.Estate, unreachable map[string]error) lab.Problems {
	type cause struct {
		at   lab.Position
		what string
	}
	var causes []cause
	names := map[cause][]string{}
	for i := range e.Applications {
		a := &e.Applications[i]
		for _, url := range a.Others {
			err := unreachable[url]
			if err == nil {
				continue
			}
			what := fmt.Sprintf("%s is unavailable: %v", url, err)
			if r, mounted := e.Repository(url); mounted {
				what += fmt.Sprintf("; the mirror of %s is served as %s", r.Dir, lab.RepositoryPage(url))
			}
			a.LeftOut = cmp.Or(a.LeftOut, what)
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
	return ps
}

func leaveOutDependents(e *lab.Estate) {
	for again := true; again; {
		again = false
		for i := range e.Applications {
			a := &e.Applications[i]
			for _, name := range a.Needs {
				j := slices.IndexFunc(e.Applications, func(o lab.Generated) bool { return o.Name == name })
				if a.LeftOut == "" && j >= 0 && e.Applications[j].LeftOut != "" {
					a.LeftOut, again = "needs "+name+", which is left out", true
				}
			}
		}
	}
}
