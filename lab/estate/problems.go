package estate

import (
	"fmt"
	"slices"

	"homelab/lab"
	"homelab/lab/estate/judge"
)

func (l *loader) at(code string, p lab.Position, message, cure string) {
	l.problems = append(l.problems, lab.Problem{Code: code, Position: p, Message: message, Cure: cure})
}

// note adds a remark, which is not an error.
func (l *loader) note(code string, p lab.Position, message, cure string) {
	l.estate.Notes = append(l.estate.Notes, lab.Problem{Code: code, Position: p, Message: message, Cure: cure})
}

// noteOnce is note for what is looked at several times.
func (l *loader) noteOnce(code string, p lab.Position, message, cure string) {
	if !slices.ContainsFunc(l.estate.Notes, func(o lab.Problem) bool { return o.Position == p && o.Message == message }) {
		l.note(code, p, message, cure)
	}
}

// add adds findings.
func (l *loader) add(f judge.Findings) {
	l.problems = append(l.problems, f.Problems...)
	l.estate.Notes = append(l.estate.Notes, f.Notes...)
}

func invalid(ps lab.Problems) error {
	ps = distinct(ps)
	count := "1 problem"
	if len(ps) > 1 {
		count = fmt.Sprintf("%d problems", len(ps))
	}
	return &lab.Error{Exit: lab.ExitInvalid, Code: "invalid_estate", Message: count + " in the estate, nothing was touched", Problems: bounded(ps)}
}

// distinct sorts problems. Each cluster of an environment reports its problems.
func distinct(ps lab.Problems) lab.Problems {
	ps.Sort()
	return slices.Compact(ps)
}

// bounded keeps the first problems of each file, so that one file does not drown the others.
func bounded(ps lab.Problems) lab.Problems {
	const most = 50
	inFile := map[string]int{}
	for _, p := range ps {
		inFile[p.File]++
	}
	var kept lab.Problems
	seen := map[string]int{}
	for _, p := range ps {
		switch seen[p.File]++; {
		case seen[p.File] <= most:
			kept = append(kept, p)
		case seen[p.File] == most+1:
			p.Message, p.Cure = fmt.Sprintf("and %d more in this file", inFile[p.File]-most), ""
			kept = append(kept, p)
		}
	}
	return kept
}
