package present

import (
	"fmt"
	"slices"
	"time"

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

// Scenario is a story, step by step.
func Scenario(one *scenario.Scenario) ui.ScenarioShow {
	out := ui.ScenarioShow{
		Name: one.Name, Title: one.Title, Teaches: one.Teaches, File: one.File, Engines: one.Requires.Engine, Clusters: one.Requires.Clusters,
	}
	for i, step := range slices.Concat(one.Steps, one.Always) {
		out.Steps = append(out.Steps, ui.ScenarioStep{
			Number: step.Number, ID: step.ID, Title: step.Title, Engines: step.Engines, Verb: step.Verb, Always: i >= len(one.Steps), Line: step.At.Line,
		})
	}
	return out
}

// leave is the verb of the last step of every story.
const leave = "leave"

// Step is a step of a story that begins or has ended, since the story's beginning.
func Step(r scenario.StepResult, since time.Duration) ui.StoryLine {
	l := ui.StoryLine{Number: r.Number, Title: r.Title, Took: r.Took, Since: since}
	switch {
	case r.Verdict == "":
	case r.Verdict == scenario.Passed:
		l.Symbol = ui.SymbolOK
	case r.Verdict == scenario.Interrupted:
		l.Symbol = ui.SymbolWarning
		if r.Verb != leave {
			l.Detail = []ui.Entry{{Name: "", Text: "interrupted; the lab is put back"}}
		} else if r.Unmet != nil {
			l.Detail = failure(r)
		}
	default:
		l.Symbol = ui.SymbolFailed
		l.Detail = failure(r)
	}
	return l
}

// ToPutBack says of a step that begins after an interrupt what the next one would leave.
func ToPutBack(r scenario.StepResult, since time.Duration) ui.StoryLine {
	l := Step(r, since)
	l.Title, l.Symbol = "ctrl-c again leaves what is not put back yet", ui.SymbolWaiting
	for _, what := range r.Back {
		l.Detail = append(l.Detail, ui.Entry{Name: "to do", Text: what})
	}
	return l
}

// failure says what a step expected, and what was seen instead.
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

// Verdict is the last line of a story; page is where its timeline is, empty where it has none.
func Verdict(r *scenario.Result, page string) string {
	line := fmt.Sprintf("%s in %s", r.Verdict, ui.Duration(r.Took))
	switch {
	case r.Verdict == scenario.Skipped:
		line = "skipped: " + r.Reason
	case r.Reason != "":
		line += ": " + r.Reason
	}
	if page != "" {
		line += "   timeline: " + page
	}
	return line
}

// Run is a series as the contract has it.
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
