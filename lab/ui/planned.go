package ui

import (
	"fmt"
	"slices"
	"strings"

	"homelab/lab"
)

// PlanResult is `lab up --dry-run -o json`.
type PlanResult struct {
	Lab   string         `json:"lab"`
	Steps List[PlanStep] `json:"steps"` // dependencies come first

	Applications List[PlanApplication] `json:"applications"`  // that the estate generates, without user's own; empty for `lab down`
	OnlyInForge  OnlyInForge           `json:"only_in_forge"` // lost with the forge; empty for `lab up`
	Untrusted    List[Thing]           `json:"untrusted"`     // access that the estate needs and the user has not agreed to; empty for `lab down`
	Open         List[OpenValue]       `json:"open"`          // placeholders in the estate; empty for `lab down`

	Effects        List[Consequence] `json:"effects"`         // of the engine, as in `lab plan`; empty for `lab down`
	EffectsUnknown string            `json:"effects_unknown"` // why Effects are unknown; empty if they are not
}

// Asks is what an estate needs from the user, and what the engine does with the objects that it has.
type Asks struct {
	Untrusted      []Thing
	Open           []OpenValue
	Effects        []Consequence
	EffectsUnknown string
}

// PlanApplication is an application in PlanResult.
type PlanApplication struct {
	Name    string `json:"name"`
	Cluster string `json:"cluster"` // destination
	Addon   string `json:"addon"`
	LeftOut string `json:"leftOut"` // why lab does not wait for it, or empty
}

// PlanStep is a step in PlanResult.
type PlanStep struct {
	ID      string       `json:"id"`      // "engine", "cluster/hub"
	Name    string       `json:"name"`    // as in StepResult
	Cluster string       `json:"cluster"` // empty for a step without cluster
	Action  string       `json:"action"`  // none, create, update, repair, recreate or delete
	Reason  string       `json:"reason"`
	Loses   string       `json:"loses"` // data that the step destroys; may be empty
	Needs   List[string] `json:"needs"` // ids of the steps to wait for
}

// NewPlanResult converts a plan, and the applications that the estate generates.
func NewPlanResult(labName string, steps []lab.Step, applications []lab.Generated, losing OnlyInForge, asks Asks) PlanResult {
	res := PlanResult{Lab: labName, OnlyInForge: losing, Untrusted: asks.Untrusted, Open: asks.Open, Effects: asks.Effects, EffectsUnknown: asks.EffectsUnknown}
	for _, a := range listed(applications) {
		res.Applications = append(res.Applications, PlanApplication{Name: a.Name, Cluster: a.Cluster, Addon: a.Addon, LeftOut: a.LeftOut})
	}
	for _, s := range steps {
		res.Steps = append(res.Steps, PlanStep{ID: s.ID, Name: s.Kind, Cluster: s.Cluster, Action: string(s.Action), Reason: s.Reason, Loses: s.Loses, Needs: s.Needs})
	}
	return res
}

// Plan prints `lab up --dry-run` and `lab down --dry-run`; text is the plan for users.
func (u *UI) Plan(labName string, steps []lab.Step, applications []lab.Generated, losing OnlyInForge, text string, asks Asks) error {
	if u.opts.JSON {
		return u.JSON(NewPlanResult(labName, steps, applications, losing, asks))
	}
	u.Raw(text + planned(listed(applications)))
	if lines := ConsequenceLines(asks.Effects, most); len(lines) > 0 {
		u.Raw("\nwhat the engine then does\n  " + strings.Join(lines, "\n  ") + "\n")
	}
	if asks.EffectsUnknown != "" {
		u.Raw("\nwhat the engine then does is unknown: " + asks.EffectsUnknown + "\n")
	}
	return nil
}

// listed leaves out roots that work, as lab status does.
func listed(applications []lab.Generated) []lab.Generated {
	return slices.DeleteFunc(slices.Clone(applications), func(a lab.Generated) bool { return !a.Listed() })
}

// planned lists the applications by cluster, in the estate's order, then those left out.
func planned(applications []lab.Generated) string {
	var order, leftOut []string
	names := map[string][]string{}
	wide := len("left out")
	for _, a := range applications {
		if a.LeftOut != "" {
			leftOut = append(leftOut, a.Name)
			continue
		}
		if names[a.Cluster] == nil {
			order, wide = append(order, a.Cluster), max(wide, len(a.Cluster))
		}
		names[a.Cluster] = append(names[a.Cluster], a.Name)
	}
	if len(applications) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\napplications\n")
	for _, cluster := range order {
		fmt.Fprintf(&b, "  %-*s   %s\n", wide, cluster, strings.Join(names[cluster], ", "))
	}
	if len(leftOut) > 0 {
		fmt.Fprintf(&b, "  %-*s   %s\n", wide, "left out", strings.Join(leftOut, ", "))
	}
	return b.String()
}
