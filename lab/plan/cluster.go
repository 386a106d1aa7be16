package plan

import (
	"fmt"
	"slices"
	"strings"

	"homelab/lab"
)

// clusterStep never deletes a cluster of unknown state: it is started or waited for.
func clusterStep(d Desired, c Cluster, o Observed) lab.Step {
	s := lab.Step{ID: id(KindCluster, c.Name), Kind: KindCluster, Cluster: c.Name, Needs: []string{KindNetwork}}
	seen := o.Clusters[c.Name]
	recreate := func(reason string) { s.Action, s.Reason, s.Loses = lab.ActionRecreate, reason, lossOf(c.Name) }
	switch {
	case !seen.Exists && c.Attached:
		s.Action, s.Reason = lab.ActionCreate, "not attached"
	case !seen.Exists:
		s.Action, s.Reason = lab.ActionCreate, "absent"
	case seen.Attached != c.Attached:
		recreate(ReasonProvider)
	case slices.Contains(d.Recreate, c.Name):
		recreate("requested")
	case seen.Made == lab.MadeHalf:
		s.Action, s.Reason = lab.ActionRepair, "half created by an unfinished run"
	case seen.Made == lab.MadeWhole && seen.Inputs != c.Inputs && !c.Attached:
		recreate(ReasonRemake)
	case c.Kubernetes != "" && seen.Kubernetes != "" && !lab.Fits(c.Kubernetes, seen.Kubernetes):
		recreate(ReasonKubernetes + ", from " + strings.TrimPrefix(seen.Kubernetes, "v") + " to " + c.Kubernetes)
	case !seen.Running:
		s.Action, s.Reason = lab.ActionRepair, seen.Fault
	case !seen.Answers:
		s.Action, s.Reason = lab.ActionRepair, seen.Fault
	case seen.Made == lab.MadeUnknown:
		s.Action, s.Reason = lab.ActionRepair, "unmarked, so kept"
	case seen.Renew != "":
		s.Action, s.Reason = lab.ActionRepair, seen.Renew
	case seen.Gone > 0:
		s.Action, s.Reason = lab.ActionRepair, fmt.Sprintf("%d of %d nodes are gone", seen.Gone, seen.Gone+len(seen.Nodes))
	case !seen.Ready:
		s.Action, s.Reason = lab.ActionRepair, "not ready"
	case !seen.Marked:
		s.Action, s.Reason = lab.ActionRepair, "marks missing from an unfinished run"
	case !containsAll(seen.Images, c.Images):
		s.Action, s.Reason = lab.ActionUpdate, "images changed"
	case slices.Contains(o.Unfamiliar, c.Name):
		s.Action, s.Reason = lab.ActionUpdate, "its nodes do not know the registry"
	default:
		s.Action, s.Reason = lab.ActionNone, seen.Kubernetes
	}
	return s
}

// containsAll reports whether have contains want. Extra images are harmless: a disabled addon may come back.
func containsAll(have, want []string) bool {
	return !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(have, w) })
}

// ReasonProvider is the reason of an impossible step: a cluster cannot change its provider.
const ReasonProvider = "spec.provider changed"

// The reasons of a cluster step that requires recreation by kind.
const (
	ReasonRemake     = "spec.kind changed"
	ReasonKubernetes = "spec.kubernetes changed" // and more
)

// Remade returns the clusters that the plan recreates because the estate asks for another one, without a request.
func Remade(steps []lab.Step) []string {
	var names []string
	for _, s := range steps {
		if s.Kind == KindCluster && s.Action == lab.ActionRecreate && (s.Reason == ReasonRemake || strings.HasPrefix(s.Reason, ReasonKubernetes)) {
			names = append(names, s.Cluster)
		}
	}
	return names
}

// Changed returns what changed in clusters that the plan recreates: "spec.kind changed in dev, spec.kubernetes changed in prod".
func Changed(steps []lab.Step, names []string) string {
	var parts []string
	for _, what := range []string{ReasonRemake, ReasonKubernetes} {
		var in []string
		for _, s := range steps {
			if s.Kind == KindCluster && slices.Contains(names, s.Cluster) && strings.HasPrefix(s.Reason, what) {
				in = append(in, s.Cluster)
			}
		}
		if len(in) > 0 {
			parts = append(parts, what+" in "+strings.Join(in, ", "))
		}
	}
	return strings.Join(parts, ", ")
}
