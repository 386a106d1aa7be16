package audience

import (
	"fmt"
	"time"

	"homelab/lab/scenario"
	"homelab/lab/ui"
)

// leave is the verb of every story's last step.
const leave = "leave"

// storyLine converts a step that starts or has ended, since after the story's start.
func storyLine(r scenario.StepResult, since time.Duration) ui.StoryLine {
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

// toPutBack lists what a second interrupt would leave unrestored.
func toPutBack(r scenario.StepResult, since time.Duration) ui.StoryLine {
	l := storyLine(r, since)
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

// verdict returns the last line of a story; page is its timeline, or empty.
func verdict(r *scenario.Result, page string) string {
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
