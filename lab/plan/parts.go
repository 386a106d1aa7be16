package plan

import (
	"slices"

	"homelab/lab"
)

// Part is an optional part of a lab: a container on its network, beside the forge.
type Part struct {
	Name   string   // also the id and the kind of its step
	Wanted bool     // by the estate
	Inputs string   // digest
	Needs  []string // ids of the steps that it needs, besides the network
	First  bool     // the clusters need it
	Serves []string // clusters in its settings; it follows their steps, if the plan has them
	Keeps  string   // what its volume alone has, "the images and charts in the registry"; empty for nothing that anybody would miss
}

// PartState is the observed state of a part. The zero value is an absent one.
type PartState struct {
	Exists    bool
	Volume    bool // exists, with or without a container
	Running   bool
	Connected bool // to the lab's network, under its names
	Answers   bool
	Fault     string // why it is stopped or does not answer; may be empty
	Behind    string // what its settings lack
	Inputs    string
}

// partSteps returns the steps of the wanted parts that the clusters need, or of the others.
func partSteps(d Desired, o Observed, first bool, before []lab.Step) []lab.Step {
	var steps []lab.Step
	for _, part := range d.Parts {
		if part.Wanted && part.First == first {
			s := lab.Step{ID: part.Name, Kind: part.Name, Needs: append([]string{KindNetwork}, part.Needs...)}
			s.Action, s.Reason = partAction(part, o.Parts[part.Name])
			for _, c := range part.Serves {
				id := id(KindCluster, c)
				if !slices.ContainsFunc(before, func(s lab.Step) bool { return s.ID == id && s.Action != lab.ActionDelete }) {
					continue
				}
				s.Needs = append(s.Needs, id)
				if s.Action == lab.ActionNone && changes(before, id) {
					s.Action, s.Reason = lab.ActionUpdate, "cluster "+c+" changes"
				}
			}
			steps = append(steps, s)
		}
	}
	return steps
}

// leftPartSteps returns the steps of what is left of parts that are no longer wanted. One goes if nobody would miss it, or if that is requested, and after everything
// else: while it exists, the next run still knows that the engine may have its credentials.
func leftPartSteps(d Desired, o Observed) []lab.Step {
	var steps []lab.Step
	for _, part := range d.Parts {
		seen := o.Parts[part.Name]
		if part.Wanted || d.Others || !seen.Exists && !seen.Volume {
			continue
		}
		s := lab.Step{ID: part.Name, Kind: part.Name, Action: lab.ActionDelete, Reason: "left the estate", Loses: part.Keeps, Needs: []string{KindAddons}}
		if part.Keeps != "" && !d.Prune {
			s.Action, s.Reason, s.Loses, s.Needs = lab.ActionNone, "left the estate, kept: lab up --prune removes it", "", nil
		}
		steps = append(steps, s)
	}
	return steps
}

func partAction(part Part, seen PartState) (lab.Action, string) {
	switch {
	case !seen.Exists:
		return lab.ActionCreate, "absent"
	case seen.Inputs != part.Inputs:
		return lab.ActionUpdate, "image or settings changed"
	case !seen.Running:
		return lab.ActionRepair, because("stopped", seen.Fault)
	case !seen.Connected:
		return lab.ActionRepair, "not connected to the lab's network"
	case !seen.Answers:
		return lab.ActionRepair, because("does not answer", seen.Fault)
	case seen.Behind != "":
		return lab.ActionUpdate, seen.Behind
	}
	return lab.ActionNone, "runs"
}

func because(reason, fault string) string {
	if fault == "" {
		return reason
	}
	return reason + ": " + fault
}

// LeftParts returns the parts that the estate no longer has, and that are kept because of what their volumes have.
func LeftParts(d Desired, o Observed) []string {
	var names []string
	for _, s := range leftPartSteps(d, o) {
		if s.Action == lab.ActionNone {
			names = append(names, s.ID)
		}
	}
	return names
}

// needParts makes the steps of clusters, and the addons step, wait for parts.
func needParts(d Desired, steps []lab.Step) {
	for i := range steps {
		for _, part := range d.Parts {
			switch kind := steps[i].Kind; {
			case !part.Wanted:
			case kind == KindCluster && part.First && steps[i].Action != lab.ActionDelete,
				kind == KindAddons && !slices.Contains(part.Needs, KindAddons):
				steps[i].Needs = append(steps[i].Needs, part.Name)
			}
		}
	}
}
