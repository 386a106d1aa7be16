package plan

import (
	"cmp"
	"fmt"
	"slices"

	"homelab/lab"
)

func addonsStep(d Desired, o Observed, hub string, before []lab.Step, bridged []string) lab.Step {
	s, unknown := hubStep(o, hub, KindAddons, "", append([]string{KindEngine, KindEstate}, bridged...)...)
	waiting := unconverged(o)
	switch {
	case unknown:
	case !o.Root:
		s.Action, s.Reason = lab.ActionCreate, "no root application"
	case changes(before, KindEstate), slices.ContainsFunc(bridged, func(b string) bool { return changes(before, b) }),
		slices.ContainsFunc(before, func(s lab.Step) bool { return s.Action == lab.ActionDelete }):
		s.Action, s.Reason = lab.ActionUpdate, "follow the estate"
	case slices.ContainsFunc(before, func(s lab.Step) bool { return s.Kind == KindEngine && s.Action == lab.ActionUpdate }):
		s.Action, s.Reason = lab.ActionUpdate, "compared by the engine as it is now"
	case len(o.Drift) > 0:
		s.Action, s.Reason = lab.ActionRepair, summary(o.Drift)
	case len(o.Behind) > 0:
		s.Action, s.Reason = lab.ActionRepair, "not yet refreshed: "+summary(o.Behind)
	case len(waiting) > 0:
		s.Action, s.Reason = lab.ActionRepair, "not in sync: "+summary(waiting)
	default:
		s.Action, s.Reason = lab.ActionNone, fmt.Sprintf("%d in sync", len(o.Applications))
	}
	return s
}

// unconverged returns the applications that are missing, unexpected, or not converged.
func unconverged(o Observed) []string {
	var names []string
	seen := map[string]bool{}
	for _, a := range o.Applications {
		seen[a.Name] = true
		if !a.Converged() {
			names = append(names, a.Name)
		}
	}
	for _, name := range o.Expected {
		if !seen[name] {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, cmp.Compare[string])
	return slices.Compact(names)
}
