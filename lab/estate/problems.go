package estate

import (
	"fmt"
	"slices"

	"homelab/lab"
)

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
