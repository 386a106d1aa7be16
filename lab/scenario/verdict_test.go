package scenario_test

import (
	"slices"
	"testing"

	"homelab/lab"
	"homelab/lab/scenario"
)

// severity lists the verdicts with their exit codes, most severe first.
var severity = []struct {
	verdict scenario.Verdict
	exit    lab.Exit
}{
	{scenario.Interrupted, lab.ExitInterrupted},
	{scenario.Broken, lab.ExitFailed},
	{scenario.Failed, lab.ExitUnmet},
	{scenario.TimedOut, lab.ExitTimeout},
	{scenario.NotPlayed, lab.ExitFailed},
	{scenario.Passed, lab.ExitDone},
	{scenario.Skipped, lab.ExitDone},
}

func TestWorstOfTwo(t *testing.T) {
	for i, a := range severity {
		for j, b := range severity {
			want := severity[min(i, j)]
			results := []*scenario.Result{{Verdict: a.verdict}, {Verdict: b.verdict}}
			if got := scenario.WorstVerdict(results); got != want.verdict {
				t.Errorf("%s, %s: %s, want %s", a.verdict, b.verdict, got, want.verdict)
			}
			if got := scenario.Worst(results); got != want.exit {
				t.Errorf("%s, %s: exit %d, want %d", a.verdict, b.verdict, got, want.exit)
			}
		}
	}
}

func TestWorstOfMany(t *testing.T) {
	var all []*scenario.Result
	for _, s := range slices.Backward(severity) { // in order of increasing severity
		all = append(all, &scenario.Result{Verdict: s.verdict})
		if got := scenario.WorstVerdict(all); got != s.verdict {
			t.Errorf("with %s: %s", s.verdict, got)
		}
		if got := (&scenario.Result{Verdict: s.verdict}).Exit(); got != s.exit {
			t.Errorf("%s: exit %d, want %d", s.verdict, got, s.exit)
		}
	}
	for name, results := range map[string][]*scenario.Result{"none": nil, "no verdict": {{}}, "unknown": {{Verdict: "fine"}, {Verdict: scenario.Passed}}} {
		if got := scenario.Worst(results); got != lab.ExitFailed {
			t.Errorf("%s: exit %d", name, got)
		}
	}
}
