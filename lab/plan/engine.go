package plan

import (
	"cmp"
	"strings"

	"homelab/lab"
)

func engineStep(d Desired, o Observed, hub string) lab.Step {
	s, unknown := hubStep(o, hub, KindEngine, "", id(KindCluster, hub))
	if !unknown {
		s.Action, s.Reason = engineAction(o.Engine, d.Engine, d.Version)
	}
	return s
}

// Upgrade returns the versions of an engine that a run replaces: "3.2.11 -> 3.6.1"; empty if it keeps it.
func Upgrade(seen Engine, version string) string {
	from, to := strings.TrimPrefix(seen.Version, "v"), strings.TrimPrefix(version, "v")
	if from == "" || to == "" || from == to {
		return ""
	}
	return from + " -> " + to
}

func engineAction(seen Engine, inputs, version string) (lab.Action, string) {
	switch {
	case !seen.Installed:
		return lab.ActionCreate, "absent"
	case seen.Status != "deployed":
		return lab.ActionRepair, "release is " + seen.Status
	case seen.Inputs != inputs:
		return lab.ActionUpdate, cmp.Or(Upgrade(seen, version), "chart or values changed")
	case !seen.Ready:
		return lab.ActionRepair, cmp.Or(seen.Waiting, "not ready")
	}
	return lab.ActionNone, "runs"
}

// spokeEngineSteps returns the steps for spokes' own engines. An attached cluster gets its engine after the hub, which
// later removes it.
func spokeEngineSteps(d Desired, o Observed, hub string, before []lab.Step) []lab.Step {
	var steps []lab.Step
	for _, c := range d.Clusters {
		if c.Name == hub || c.Engine == "" {
			continue
		}
		s := lab.Step{ID: id(KindEngine, c.Name), Kind: KindEngine, Cluster: c.Name, Needs: []string{id(KindCluster, c.Name)}}
		if c.Attached {
			s.Needs = append(s.Needs, KindEngine)
		}
		switch seen, known := o.Engines[c.Name]; {
		case creates(before, id(KindCluster, c.Name)):
			s.Action, s.Reason = lab.ActionCreate, "the cluster is created"
		case !known:
			s.Action, s.Reason = lab.ActionRepair, "the cluster "+unreachableReason(o.Clusters[c.Name])
		default:
			s.Action, s.Reason = engineAction(seen, c.Engine, d.Version)
		}
		steps = append(steps, s)
	}
	return steps
}

// creates reports whether a step creates or recreates its cluster.
func creates(steps []lab.Step, id string) bool {
	for _, s := range steps {
		if s.ID == id {
			return s.Action == lab.ActionCreate || s.Action == lab.ActionRecreate
		}
	}
	return false
}

// withoutEngine returns the state after the former engine is removed. Its observed state must not count for a new one of
// the same type.
func withoutEngine(d Desired, o Observed) Observed {
	o.Engine, o.Engines, o.Bridge, o.Registered = Engine{}, map[string]Engine{}, nil, nil
	o.Root, o.Applications, o.Drift, o.Behind = false, nil, nil, nil
	for _, c := range d.Clusters {
		o.Engines[c.Name] = Engine{}
	}
	return o
}

// retireStep removes the former engine once all clusters run, as it removes its metadata from objects there.
func retireStep(o Observed, before []lab.Step) lab.Step {
	s := lab.Step{
		ID: KindRetire, Kind: KindRetire, Action: lab.ActionDelete, Reason: o.Former + " is replaced; its applied objects remain",
		Loses: o.Former + ": its settings, its history, its own objects; applied objects remain",
	}
	for _, b := range before {
		if b.Kind == KindCluster {
			s.Needs = append(s.Needs, b.ID)
		}
	}
	return s
}
