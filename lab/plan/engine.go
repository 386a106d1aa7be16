package plan

import (
	"cmp"

	"homelab/lab"
)

func engineStep(d Desired, o Observed, hub string) lab.Step {
	s, unknown := hubStep(o, hub, KindEngine, "", id(KindCluster, hub))
	if !unknown {
		s.Action, s.Reason = engineAction(o.Engine, d.Engine)
	}
	return s
}

// engineAction returns what an engine of which something is known needs.
func engineAction(seen Engine, inputs string) (lab.Action, string) {
	switch {
	case !seen.Installed:
		return lab.ActionCreate, "absent"
	case seen.Status != "deployed":
		return lab.ActionRepair, "its release is " + seen.Status
	case seen.Inputs != inputs:
		return lab.ActionUpdate, "chart or values changed"
	case !seen.Ready:
		return lab.ActionRepair, cmp.Or(seen.Waiting, "not ready")
	}
	return lab.ActionNone, "runs"
}

// spokeEngineSteps are for spokes that run an engine of their own. A cluster that outlives the lab gets its engine after the hub, which takes it back.
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
		case made(before, id(KindCluster, c.Name)):
			s.Action, s.Reason = lab.ActionCreate, "the cluster is made"
		case !known:
			s.Action, s.Reason = lab.ActionRepair, "the cluster "+unreachableReason(o.Clusters[c.Name])
		default:
			s.Action, s.Reason = engineAction(seen, c.Engine)
		}
		steps = append(steps, s)
	}
	return steps
}

// made reports whether a step creates or recreates its cluster.
func made(steps []lab.Step, id string) bool {
	for _, s := range steps {
		if s.ID == id {
			return s.Action == lab.ActionCreate || s.Action == lab.ActionRecreate
		}
	}
	return false
}

// withoutEngine is what is observed once the former engine is gone. It may be of the same type, and what is seen of the one is the other's.
func withoutEngine(d Desired, o Observed) Observed {
	o.Engine, o.Engines, o.Bridge, o.Registered = Engine{}, map[string]Engine{}, nil, nil
	o.Root, o.Applications, o.Strayed, o.Behind = false, nil, nil, nil
	for _, c := range d.Clusters {
		o.Engines[c.Name] = Engine{}
	}
	return o
}

// retireStep removes the former engine once all clusters run: what it applied there is to lose its traces.
func retireStep(o Observed, before []lab.Step) lab.Step {
	s := lab.Step{
		ID: KindRetire, Kind: KindRetire, Action: lab.ActionDelete, Reason: o.Former + " makes way; what it applied stays",
		Loses: o.Former + ": its settings, its history, its objects; what it applied stays",
	}
	for _, b := range before {
		if b.Kind == KindCluster {
			s.Needs = append(s.Needs, b.ID)
		}
	}
	return s
}
