package budget

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBudget(t *testing.T) {
	const minute = time.Minute
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	up := Test{"up", minute}
	tests := []Test{{"faults", 10 * minute}, {"kill", 5 * minute}, {"story", 2 * minute}}
	for _, tc := range []struct {
		name    string
		minutes int // remaining
		due     []Test
		up      time.Duration // duration of the first test
		runs    string
		left    string
	}{
		{"time for all", 20, nil, minute, "faults kill story", ""},
		{"short of time", 14, nil, minute, "faults story", "kill"},
		{"on a slow machine", 20, nil, 2 * minute, "kill story", "faults"},
		{"on a fast machine", 8, nil, minute / 4, "faults kill story", ""},
		{"skipped tests go first", 14, []Test{tests[1]}, minute, "kill story", "faults"},
		{"skipped again", 2, []Test{tests[1]}, minute, "", "faults kill story"},
		{"missing due test stays due", 20, []Test{{"old", minute}}, minute, "faults kill story", "old"},
		{"no time at all", 0, nil, minute, "", "faults kill story"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := start
			b := Budget{Ends: start.Add(time.Duration(tc.minutes) * minute), Due: tc.due, Reserve: minute}
			b.Done(up, tc.up)
			var runs, left []string
			for _, test := range tests {
				ok, lacks := b.Take(test, now)
				if ok != (lacks == 0) {
					t.Errorf("%s: %t, short of %s", test.Name, ok, lacks)
				}
				if ok {
					took := time.Duration(float64(test.Quiet) * b.Pace())
					now = now.Add(took)
					b.Done(test, took)
					runs = append(runs, test.Name)
				}
			}
			for _, test := range b.Left() {
				left = append(left, test.Name)
			}
			if got := strings.Join(runs, " "); got != tc.runs {
				t.Errorf("ran %q, want %q", got, tc.runs)
			}
			if got := strings.Join(left, " "); got != tc.left {
				t.Errorf("left %q, want %q", got, tc.left)
			}
			if now.Sub(start) > time.Duration(tc.minutes)*minute {
				t.Errorf("ended %s late", now.Sub(start)-time.Duration(tc.minutes)*minute)
			}
		})
	}
}

func TestUnlimited(t *testing.T) {
	var b Budget
	if ok, _ := b.Take(Test{"all", 1000 * time.Hour}, time.Now()); !ok || len(b.Left()) > 0 {
		t.Error("left out without an end")
	}
}

func TestReadWrite(t *testing.T) {
	tests := []Test{{"a test/with a subtest", 90 * time.Second}, {"b", 0}}
	var s strings.Builder
	if err := Write(&s, tests); err != nil {
		t.Fatal(err)
	}
	got, err := Read(strings.NewReader("x y\n\n-3 z\n12\n" + s.String()))
	if err != nil || !slices.Equal(got, tests) {
		t.Errorf("%v, %v", got, err)
	}
}
