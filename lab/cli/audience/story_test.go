package audience

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"homelab/lab/scenario"
	"homelab/lab/ui"
)

func TestSteps(t *testing.T) {
	unmet := &scenario.Unmet{Expected: "Synced", LastSeen: "OutOfSync", Unchanged: 3 * time.Second, Notes: []string{"n"}}
	seen := []ui.Entry{{Name: "expected", Text: "Synced"}, {Name: "last seen", Text: "OutOfSync, unchanged for 3.0s"}, {Name: "note", Text: "n"}}
	for name, c := range map[string]struct {
		step   scenario.StepResult
		symbol ui.Symbol
		detail []ui.Entry
	}{
		"begins":      {scenario.StepResult{}, "", nil},
		"passed":      {scenario.StepResult{Verdict: scenario.Passed}, ui.SymbolOK, nil},
		"unmet":       {scenario.StepResult{Verdict: scenario.Failed, Unmet: unmet}, ui.SymbolFailed, seen},
		"broken":      {scenario.StepResult{Verdict: scenario.Broken, Error: "e"}, ui.SymbolFailed, []ui.Entry{{Name: "error", Text: "e"}}},
		"interrupted": {scenario.StepResult{Verdict: scenario.Interrupted}, ui.SymbolWarning, []ui.Entry{{Text: "interrupted; restoring the lab"}}},
		"left":        {scenario.StepResult{Verdict: scenario.Interrupted, Verb: leave, Unmet: unmet}, ui.SymbolWarning, seen},
	} {
		t.Run(name, func(t *testing.T) {
			got := storyLine(c.step, time.Second)
			if got.Symbol != c.symbol || got.Since != time.Second {
				t.Errorf("%+v", got)
			}
			if diff := cmp.Diff(c.detail, got.Detail); diff != "" {
				t.Error(diff)
			}
		})
	}
	want := ui.StoryLine{Number: 4, Title: "ctrl-c again skips the remaining restores", Symbol: ui.SymbolWaiting, Detail: []ui.Entry{{Name: "to do", Text: "git main"}}}
	if diff := cmp.Diff(want, toPutBack(scenario.StepResult{Number: 4, Back: []string{"git main"}}, 0)); diff != "" {
		t.Error(diff)
	}
	if got := verdict(&scenario.Result{Verdict: scenario.Skipped, Reason: "no spoke"}, ""); got != "skipped: no spoke" {
		t.Error(got)
	}
	r := &scenario.Result{Scenario: "drift", Verdict: scenario.Failed, Took: 2 * time.Second, Reason: "r"}
	if got := verdict(r, "/p"); got != "failed in "+ui.Duration(r.Took)+": r   timeline: /p" {
		t.Error(got)
	}
}
