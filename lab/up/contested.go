package up

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"homelab/lab"
)

// contested returns, by attached cluster, the applications of its owner's engine that would prune what the lab deploys, and the clusters where that is unknown, with
// the reason.
func (l *Lab) contested(ctx context.Context, clusters []lab.Cluster) (found map[string][]string, unknown map[string]error) {
	found, unknown = map[string][]string{}, map[string]error{}
	if l.Definition.Contests == nil {
		return found, unknown
	}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, c := range clusters {
		if c.Provider != lab.ProviderExisting {
			continue
		}
		asking.Go(func() {
			within, cancel := context.WithTimeout(ctx, engineWithin)
			defer cancel()
			cfg, err := l.Clusters.RESTConfig(c.Name)
			var theirs []string
			if err == nil {
				theirs, err = l.Definition.Contests(within, cfg, applicationNames(l.expected([]lab.Cluster{c})))
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				unknown[c.Name] = err
			}
			if len(theirs) > 0 {
				found[c.Name] = theirs
			}
		})
	}
	asking.Wait()
	return found, unknown
}

// Contested returns an error if the lab and an attached cluster's owner would deploy under the same names.
func (l *Lab) Contested(s *Seen) error {
	if len(s.contested) == 0 {
		return nil
	}
	e := &lab.Error{
		Exit: lab.ExitInvalid, Code: "contested", Message: "the engine of an attached cluster's owner has applications with names of the lab's, and would prune what the lab deploys there",
		Cure: "give the cluster another name in the estate; or for its owner: " + l.Definition.Apart,
	}
	for _, name := range slices.Sorted(maps.Keys(s.contested)) {
		e.Details = append(e.Details, fmt.Sprintf("cluster %s: %s", name, strings.Join(s.contested[name], ", ")))
	}
	return e
}

// ContestsUnknown returns a line for each attached cluster of which that is unknown.
func (s *Seen) ContestsUnknown() []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(s.contestsUnknown)) {
		lines = append(lines, fmt.Sprintf("cluster %s: whether its owner's engine has applications with names of the lab's is unknown: %v", name, s.contestsUnknown[name]))
	}
	return lines
}
