package present

import (
	"slices"

	"homelab/lab/cluster"
	"homelab/lab/trust"
	"homelab/lab/ui"
)

// Things converts what an estate asks for.
func Things(list []trust.Thing) []ui.Thing {
	var out []ui.Thing
	for _, t := range list {
		out = append(out, ui.Thing{Kind: string(t.Kind), Cluster: t.Cluster, What: t.What, Gives: t.Gives, File: t.At.File, Line: t.At.Line})
	}
	return out
}

// Distrust adds what nobody has agreed to to a status. The state of an existing cluster among it is unknown, as it was not asked.
func Distrust(s *ui.Status, lacking []trust.Thing) {
	s.Untrusted = Things(lacking)
	for i, c := range s.Clusters {
		if slices.ContainsFunc(lacking, func(t trust.Thing) bool { return t.Kind == trust.Cluster && t.Cluster == c.Name }) {
			s.Clusters[i].State = cluster.Untrusted
		}
	}
}
