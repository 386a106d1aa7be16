package estate

import (
	"fmt"
	"slices"
	"strings"

	"homelab/lab"
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

// LeaveOut marks the Applications that need a repository which cannot be had, and says where each is asked for.
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
	return ps
}
