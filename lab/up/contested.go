package up

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"homelab/lab"
)

// contested returns, by attached cluster, the applications of its owner's engine that would prune what the lab deploys. Clusters that do not answer are omitted.
func (l *Lab) contested(ctx context.Context, clusters []lab.Cluster) (map[string][]string, error) {
	clusters = slices.DeleteFunc(slices.Clone(clusters), func(c lab.Cluster) bool { return c.Provider != lab.ProviderExisting })
	if l.Definition.Contests == nil {
		return nil, nil
	}
	found := map[string][]string{}
	for _, c := range clusters {
		cfg, err := l.Clusters.RESTConfig(c.Name)
		if err != nil {
			continue
		}
		within, cancel := context.WithTimeout(ctx, engineWithin)
		theirs, err := l.Definition.Contests(within, cfg, applicationNames(l.expected([]lab.Cluster{c})))
		cancel()
		if err == nil && len(theirs) > 0 {
			found[c.Name] = theirs
		}
	}
	return found, ctx.Err()
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
