package cli

import (
	"homelab/lab/scenario"
	"homelab/lab/scenario/series"
	"homelab/lab/ui"
)

// runResult is a series as the contract has it.
func runResult(labName string, played series.Outcome) ui.ScenarioRun {
	out := ui.ScenarioRun{Lab: labName, Seconds: ui.Seconds(played.Took), Verdict: string(scenario.WorstVerdict(played.Results))}
	for i, r := range played.Results {
		one := ui.ScenarioResult{
			Name: r.Scenario, Title: r.Title, Verdict: string(r.Verdict), Reason: r.Reason, Began: r.Began.UTC(), Seconds: ui.Seconds(r.Took), Left: r.Left, Timeline: played.Pages[i],
		}
		for _, m := range r.Measures {
			one.Measures = append(one.Measures, ui.ScenarioMeasure{Name: m.Name, From: m.From, Seconds: ui.Seconds(m.Took)})
		}
		for _, step := range r.Steps {
			line := ui.ScenarioStepResult{
				Number: step.Number, ID: step.ID, Title: step.Title, Verb: step.Verb, Always: step.Always, Verdict: string(step.Verdict),
				Since: ui.Seconds(step.Began), Seconds: ui.Seconds(step.Took), Did: step.Did, Error: step.Error,
			}
			if u := step.Unmet; u != nil {
				line.Expected, line.LastSeen, line.Unchanged, line.Notes = u.Expected, u.LastSeen, ui.Seconds(u.Unchanged), u.Notes
			}
			one.Steps = append(one.Steps, line)
		}
		out.Scenarios = append(out.Scenarios, one)
	}
	return out
}
