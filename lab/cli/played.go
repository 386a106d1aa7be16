package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"homelab/lab/scenario"
	"homelab/lab/scenario/report"
	"homelab/lab/ui"
)

func details(r scenario.StepResult) []ui.Entry {
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

func verdictLine(r *scenario.Result, page string) string {
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

// writePage writes a story's timeline. A story that was not played has none.
func writePage(dir string, r *scenario.Result) (string, error) {
	if len(r.Steps) == 0 {
		return "", nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("timeline: %w", err)
	}
	var b bytes.Buffer
	if err := report.HTML(&b, r); err != nil {
		return "", fmt.Errorf("timeline: %w", err)
	}
	file := filepath.Join(dir, r.Scenario+".html")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		return "", fmt.Errorf("timeline: %w", err)
	}
	return file, nil
}

func writeJUnit(file string, results []*scenario.Result) error {
	if file == "" {
		return nil
	}
	var b bytes.Buffer
	if err := report.JUnit(&b, results); err != nil {
		return fmt.Errorf("junit: %w", err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("junit: %w", err)
	}
	return nil
}

func runResult(labName string, results []*scenario.Result, pages []string, took time.Duration) ui.ScenarioRun {
	out := ui.ScenarioRun{Lab: labName, Seconds: ui.Seconds(took), Verdict: string(scenario.WorstVerdict(results))}
	for i, r := range results {
		one := ui.ScenarioResult{
			Name: r.Scenario, Title: r.Title, Verdict: string(r.Verdict), Reason: r.Reason, Began: r.Began.UTC(), Seconds: ui.Seconds(r.Took), Left: r.Left, Timeline: pages[i],
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
