package ui

import (
	"slices"
	"time"

	"homelab/lab"
)

// Leg is a step of the critical path.
type Leg struct {
	Title string
	Took  time.Duration
}

// LongestWay returns the critical path of a run: the slowest chain of dependent steps. took holds the durations by step
// ID.
func LongestWay(steps []lab.Step, took map[string]time.Duration) []Leg {
	byID := map[string]lab.Step{}
	for _, s := range steps {
		byID[s.ID] = s
	}
	best := map[string]time.Duration{}
	prev := map[string]string{}
	var visit func(id string) time.Duration
	visit = func(id string) time.Duration {
		if d, ok := best[id]; ok {
			return d
		}
		best[id] = 0 // breaks cycles: a step being visited has no dependencies
		longest := time.Duration(0)
		for _, need := range byID[id].Needs {
			if d := visit(need); d > longest {
				longest, prev[id] = d, need
			}
		}
		best[id] = took[id] + longest
		return best[id]
	}
	last := ""
	for _, s := range steps {
		if d := visit(s.ID); last == "" || d > best[last] {
			last = s.ID
		}
	}
	var way []Leg
	for id := last; id != ""; id = prev[id] {
		if s, ok := byID[id]; ok && took[id] > 0 {
			way = append(way, Leg{Title: s.Title(), Took: took[id]})
		}
	}
	slices.Reverse(way)
	return way
}
