package present

import (
	"fmt"
	"slices"
	"time"

	"homelab/lab"
	"homelab/lab/scenario"
	"homelab/lab/scenario/series"
	"homelab/lab/ui"
)

// Scenarios lists stories.
func Scenarios(list []*scenario.Scenario) ui.ScenarioList {
	var out ui.ScenarioList
	for _, one := range list {
		out.Scenarios = append(out.Scenarios, ui.ScenarioSummary{Name: one.Name, Title: one.Title, Teaches: one.Teaches, Steps: len(one.Steps) + len(one.Always)})
	}
	return out
}

// Scenario converts a story and its steps.
func Scenario(one *scenario.Scenario) ui.ScenarioShow {
	out := ui.ScenarioShow{
		Name: one.Name, Title: one.Title, Teaches: one.Teaches, File: one.File, Engines: lab.EngineNames(one.Requires.Engine), Clusters: one.Requires.Clusters,
	}
	for i, step := range slices.Concat(one.Steps, one.Always) {
		out.Steps = append(out.Steps, ui.ScenarioStep{
			Number: step.Number, ID: step.ID, Title: step.Title, Engines: lab.EngineNames(step.Engines), Verb: step.Verb, Always: i >= len(one.Steps), Line: step.At.Line,
		})
	}
	return out
}

// leave is the verb of every story's last step.
const leave = "leave"

// Step converts a step that starts or has ended, since after the story's start.
func Step(r scenario.StepResult, since time.Duration) ui.StoryLine {
	l := ui.StoryLine{Number: r.Number, Title: r.Title, Took: r.Took, Since: since}
	switch {
	case r.Verdict == "":
	case r.Verdict == scenario.Passed:
		l.Symbol = ui.SymbolOK
	case r.Verdict == scenario.Interrupted:
		l.Symbol = ui.SymbolWarning
		if r.Verb != leave {
			l.Detail = []ui.Entry{{Name: "", Text: "interrupted; restoring the lab"}}
		} else if r.Unmet != nil {
			l.Detail = failure(r)
		}
	default:
		l.Symbol = ui.SymbolFailed
		l.Detail = failure(r)
	}
	return l
}

// ToPutBack lists what a second interrupt would leave unrestored.
func ToPutBack(r scenario.StepResult, since time.Duration) ui.StoryLine {
	l := Step(r, since)
	l.Title, l.Symbol = "ctrl-c again skips the remaining restores", ui.SymbolWaiting
	for _, what := range r.Back {
		l.Detail = append(l.Detail, ui.Entry{Name: "to do", Text: what})
	}
	return l
}

// failure returns the expected and the observed state of a failed step.
func failure(r scenario.StepResult) []ui.Entry {
	if r.Unmet == nil {
		return []ui.Entry{{Name: "error", Text: r.Error}}
	}
	seen := r.Unmet.LastSeen
	if r.Unmet.Unchanged >= time.Second {
		seen += ", unchanged for " + ui.Duration(r.Unmet.Unchanged)
	}
	list := []ui.Entry{{Name: "expected", Text: r.Unmet.Expected}, {Name: "last seen", Text: seen}}
	for _, n := range r.Unmet.Notes {
		list = append(list, ui.Entry{Name: "note", Text: n})
	}
	return list
}

// Verdict returns the last line of a story; page is its timeline, or empty.
func Verdict(r *scenario.Result, page string) string {
	line := fmt.Sprintf("%s in %s", r.Verdict, ui.Duration(r.Took))
	switch {
	case r.Verdict == scenario.Skipped || r.Verdict == scenario.NotPlayed && r.Took == 0:
		line = string(r.Verdict) + ": " + r.Reason
	case r.Reason != "":
		line += ": " + r.Reason
	}
	if page != "" {
		line += "   timeline: " + page
	}
	return line
}

// Run converts a series.
func Run(labName string, played series.Outcome) ui.ScenarioRun {
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
