//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"homelab/lab/e2e/shard"
)

// ci is a run of CI, which plays chosen tests and records the results. LAB_CI_PLAN is a file of the plan command, LAB_CI_ENDS the deadline in Unix seconds,
// LAB_CI_RESULTS the file for results. All are optional.
var ci struct {
	chosen  map[string]string // with the reason; all if nil
	table   map[string]shard.Test
	run     int
	ends    time.Time // no deadline if zero
	results string    // not recorded if empty
	commit  string

	spent, expected time.Duration // of the tests that passed
	owed            int           // seconds of the tests to come that did not pass when they last ran: others leave them their time
}

func openPlan() error {
	file, err := os.Open(filepath.Join("..", "..", "docs", "tests.md"))
	if err != nil {
		return err
	}
	defer file.Close()
	tests, err := shard.Read(file)
	if err != nil {
		return err
	}
	ci.table = map[string]shard.Test{}
	for _, t := range tests {
		ci.table[t.Name] = t
	}
	if plan := os.Getenv("LAB_CI_PLAN"); plan != "" {
		if ci.chosen, ci.run, err = shard.Chosen(plan); err != nil {
			return err
		}
		for name, why := range ci.chosen {
			if why == shard.DidNotPass {
				ci.owed += ci.table[name].Seconds
			}
		}
	}
	if ends, err := strconv.ParseInt(os.Getenv("LAB_CI_ENDS"), 10, 64); err == nil {
		ci.ends = time.Unix(ends, 0)
	}
	if ci.results = os.Getenv("LAB_CI_RESULTS"); ci.results != "" {
		out, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
		if err != nil {
			return err
		}
		ci.commit = strings.TrimSpace(string(out))
	}
	return nil
}

// play plays the chosen parts of the suite of a test. After a failure in a shared lab, the others are postponed, as its state is unknown.
func play(t *testing.T) {
	all := suites()
	s := all[slices.IndexFunc(all, func(s suite) bool { return s.name == t.Name() })]
	chosen := slices.DeleteFunc(slices.Clone(s.parts), func(p part) bool { return ci.chosen != nil && ci.chosen[s.name+"/"+p.name] == "" })
	if len(chosen) == 0 {
		t.Skip("not in this run: docs/tests.md")
	}
	var l *testLab
	if s.lab != nil {
		l = s.lab(t)
	}
	for i, p := range chosen {
		row := ci.table[s.name+"/"+p.name]
		if ci.chosen[row.Name] == shard.DidNotPass {
			ci.owed -= row.Seconds
		}
		if row.When == shard.InTurn && !timeFor(row) {
			t.Logf("%s is postponed: there is no time for %d s", row.Name, row.Seconds)
			note(t, row.Name, shard.Postponed, 0)
			continue
		}
		began := time.Now()
		verdict := shard.Passed
		t.Run(p.name, func(t *testing.T) {
			defer func() {
				switch {
				case t.Failed():
					verdict = shard.Failed
				case t.Skipped(): // this machine cannot play it, also next time
					verdict = ""
				}
			}()
			if l == nil {
				p.run(t, nil)
			} else {
				l.within(t, p.run)
			}
		})
		if took := time.Since(began); verdict == shard.Passed && row.Seconds > 1 && p.name != "up" { // which may build images
			ci.spent, ci.expected = ci.spent+took, ci.expected+time.Duration(row.Seconds)*time.Second
		}
		note(t, row.Name, verdict, time.Since(began))
		if l != nil && verdict == shard.Failed {
			for _, p := range chosen[i+1:] {
				note(t, s.name+"/"+p.name, shard.Postponed, 0)
			}
			t.FailNow()
		}
	}
}

// timeFor reports whether there is time for a test before the deadline, at the pace of this machine so far.
func timeFor(row shard.Test) bool {
	if ci.ends.IsZero() {
		return true
	}
	pace := 1.0
	if ci.expected > time.Minute {
		pace = max(pace, float64(ci.spent)/float64(ci.expected))
	}
	return time.Now().Add(time.Duration(pace * float64(row.Seconds+ci.owed) * float64(time.Second))).Before(ci.ends)
}

// onlyHere skips a test that stops the machine's container engine, or removes images that other labs use, unless LAB_E2E_HOST allows it, as .ci/run does where
// CI=true.
func onlyHere(t *testing.T) {
	t.Helper()
	if os.Getenv("LAB_E2E_HOST") == "" {
		t.Skip("affects others on this machine: set LAB_E2E_HOST=yes")
	}
}

// note records the result of a test.
func note(t *testing.T, name, verdict string, took time.Duration) {
	t.Helper()
	if ci.results == "" || verdict == "" {
		return
	}
	r := shard.Result{Run: ci.run, Name: name, Verdict: verdict, Seconds: int(took.Round(time.Second).Seconds()), Date: time.Now().UTC().Format(time.DateOnly), Commit: ci.commit}
	if err := shard.Append(ci.results, r); err != nil {
		t.Error(err)
	}
}

// Every part has a row in docs/tests.md, and every row its part or stage.
func TestTable(t *testing.T) {
	parts := map[string]bool{}
	for _, s := range suites() {
		for _, p := range s.parts {
			parts[s.name+"/"+p.name] = true
			if ci.table[s.name+"/"+p.name].When == "" {
				t.Errorf("docs/tests.md has no row for %s/%s", s.name, p.name)
			}
		}
	}
	for name := range ci.table {
		if strings.HasPrefix(name, "Test") && !parts[name] {
			t.Errorf("docs/tests.md has a row for %s, which does not exist", name)
		}
	}
}
