package estate

import (
	"fmt"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/appset"
)

// Others are the repositories beyond the lab's own that Applications of the estate need.
func Others(e *lab.Estate) []string {
	var list []string
	for _, a := range e.Applications {
		list = append(list, a.Others...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Refuse is the error of an estate that should not be left incomplete; nil where nothing is left out.
func Refuse(leftOut lab.Problems) error {
	if len(leftOut) == 0 {
		return nil
	}
	return &lab.Error{Exit: lab.ExitInvalid, Code: "unavailable", Message: "the estate needs what cannot be had here, nothing was touched", Cure: "without --strict lab up leaves it out", Problems: leftOut}
}

// leftByHand is why nobody waits for an Application that is synced when somebody asks for it; empty for others.
func leftByHand(app *appset.Template, above string) string {
	switch {
	case above != "":
		return above + " leads to it, and is synced by hand"
	case !app.Spec.Automated():
		return "synced by hand: spec.syncPolicy.automated is not set"
	}
	return ""
}

// manual notes the Applications that are synced by hand.
func (l *loader) manual() {
	names, why := map[lab.Position][]string{}, map[lab.Position]string{}
	var order []lab.Position
	for _, a := range l.estate.Applications {
		if a.LeftOut == "" {
			continue
		}
		if names[a.At] == nil {
			order = append(order, a.At)
		}
		names[a.At], why[a.At] = append(names[a.At], a.Name), a.LeftOut
	}
	for _, at := range order {
		l.note(at, strings.Join(names[at], ", ")+": "+why[at], "lab does not wait for it")
	}
}

// LeaveOut marks the Applications that need a repository which cannot be had, notes them, and returns where each is asked for.
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
			what := fmt.Sprintf("%s cannot be had: %v", url, err)
			a.LeftOut = what
			c := cause{a.At, what}
			if names[c] == nil {
				causes = append(causes, c)
			}
			names[c] = append(names[c], a.Name)
		}
	}
	var ps lab.Problems
	for _, c := range causes {
		ps = append(ps, lab.Problem{Position: c.at, Message: c.what, Cure: "needed by " + strings.Join(names[c], ", ")})
	}
	for _, p := range ps {
		p.Cure += ", which nobody waits for"
		e.Notes = append(e.Notes, p)
	}
	return ps
}
