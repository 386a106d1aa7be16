package shard_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"homelab/lab/e2e/shard"
)

const document = `# Tests

| test | when | seconds | date | commit |
|---|---|---|---|---|
| ` + "`TestA/up`" + ` | always | 60 | - | - |
| ` + "`TestA/one`" + ` | in turn | 700 | 2026-11-27 | abc |
| ` + "`TestB/up`" + ` | set-up | 100 | - | - |
| ` + "`TestB/one`" + ` | in turn | 450 | - | - |
| ` + "`TestB/two`" + ` | in turn | 600 | - | - |
| ` + "`contracts`" + ` | in turn | 300 | - | - |
`

func read(t *testing.T, text string) []shard.Test {
	t.Helper()
	tests, err := shard.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

func names(tests []shard.Test) (list []string) {
	for _, t := range tests {
		list = append(list, t.Name)
	}
	return list
}

func TestShardsIncludeSetUp(t *testing.T) {
	tests := read(t, document)
	var got [][]string
	for _, s := range shard.Shards(tests, shard.Size) {
		got = append(got, names(s))
	}
	// 700; 100 for the set-up and 450; again 100, 600 and 300
	if want := [][]string{{"TestA/one"}, {"TestB/one"}, {"TestB/two", "contracts"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestChoose(t *testing.T) {
	tests := read(t, document)
	p := shard.Choose(tests, []string{"contracts", "TestC/gone"}, 4)
	want := map[string]string{"TestA/up": "always", "TestB/up": "set-up", "TestB/one": "shard 1", "contracts": shard.DidNotPass}
	if p.Shard != 1 || p.Shards != 3 || !reflect.DeepEqual(p.Why, want) {
		t.Errorf("%+v, want %v", p, want)
	}
}

func TestInvalidRows(t *testing.T) {
	for row, want := range map[string]string{
		"| `a` | in turn | x | - | - |":                              `line 1: seconds "x"`,
		"| `a` | often | 1 | - | - |":                                `line 1: when "often"`,
		"| `a` | in turn | 1 |":                                      "line 1: 3 cells",
		"| `a` | always | 1 | - | - |\n| `a` | always | 1 | - | - |": "line 2: a has two rows",
	} {
		if _, err := shard.Read(strings.NewReader(row)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", row, err, want)
		}
	}
}

func TestResults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ci", "results")
	for _, r := range []shard.Result{
		{Run: 7, Name: "a b", Verdict: shard.Failed, Seconds: 1},
		{Run: 7, Name: "TestA/one", Verdict: shard.Failed},
		{Run: 8, Name: "TestA/one", Verdict: shard.Passed, Seconds: 42, Date: "2026-11-28", Commit: "def"},
		{Run: 8, Name: "TestB/one", Verdict: shard.Postponed},
	} {
		if err := shard.Append(file, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, append(must(os.ReadFile(file)), "of another version\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	results, err := shard.Results(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := shard.First(results), []string{"TestB/one", "a b"}; !slices.Equal(got, want) {
		t.Errorf("first %q, want %q", got, want)
	}
	if _, run := shard.Last(results); run != 8 {
		t.Errorf("last run %d", run)
	}
	want := strings.Replace(document, "700 | 2026-11-27 | abc", "42 | 2026-11-28 | def", 1)
	if got := shard.Enter(document, results, 1); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got, want := shard.Enter(document, results, 1.5), strings.Replace(want, "| 42 |", "| 28 |", 1); got != want {
		t.Errorf("at pace 1.5:\n%s\nwant\n%s", got, want)
	}
}

func must(data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return data
}

// No test waits longer than N runs, and N is at most 6, on the machine of the table. On one 2.5 times slower, the deadline postpones tests, but none forever.
func TestWorstWait(t *testing.T) {
	tests := read(t, string(must(os.ReadFile("../../../docs/tests.md"))))
	n := len(shard.Shards(tests, shard.Size))
	t.Logf("N = %d", n)
	if n > 6 {
		t.Errorf("%d shards, want at most 6", n)
	}
	for _, pace := range []float64{1, 2.5} {
		wait, slowest := simulate(tests, pace)
		t.Logf("pace %.1f: a test waits for %d runs at the most, the longest run takes %.0f min", pace, wait, slowest/60)
		if wait > n || slowest > 90*60 {
			t.Errorf("at pace %.1f a test waits for %d runs, and a run takes %.0f min", pace, wait, slowest/60)
		}
	}
}

// simulate plays 200 runs, in each of which two tests fail. It returns the longest wait of a test in runs and the longest run in seconds.
func simulate(tests []shard.Test, pace float64) (wait int, longest float64) {
	const before, ends = 4 * 60, 82 * 60 // modules, lint and host; the deadline of .ci/run
	last, failed := map[string]int{}, []string(nil)
	for run := range 200 {
		p := shard.Choose(tests, failed, run)
		failed = nil
		owed := 0
		for _, t := range p.Tests {
			if p.Why[t.Name] == shard.DidNotPass {
				owed += t.Seconds
			}
		}
		now := before * pace
		for i, t := range p.Tests {
			if p.Why[t.Name] == shard.DidNotPass {
				owed -= t.Seconds
			}
			if t.When == shard.InTurn && now+pace*float64(t.Seconds+owed) > ends {
				failed = append(failed, t.Name)
				continue
			}
			now += pace * float64(t.Seconds)
			wait = max(wait, run-last[t.Name])
			last[t.Name] = run
			if i == run%len(p.Tests) || i == 7*run%len(p.Tests) {
				failed = append(failed, t.Name)
			}
		}
		longest = max(longest, now)
	}
	for _, t := range tests {
		wait = max(wait, 200-last[t.Name])
	}
	return wait, longest
}

func TestWaiting(t *testing.T) {
	results := []shard.Result{
		{Run: 1, Name: "old", Verdict: shard.Passed},
		{Run: 1, Name: "mended", Verdict: shard.Failed},
		{Run: 2, Name: "failed", Verdict: shard.Failed},
		{Run: 3, Name: "mended", Verdict: shard.Passed},
		{Run: 2, Name: "newer", Verdict: shard.Passed},
	}
	got := shard.Waiting(results, []string{"newer", "old", "new", "mended", "failed"})
	if want := []string{"failed", "new", "old", "newer", "mended"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
