package budget

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestBudget(t *testing.T) {
	const minute = time.Minute
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	up := Test{Name: "up", Quiet: minute}
	tests := []Test{{Name: "faults", Quiet: 10 * minute}, {Name: "kill", Quiet: 5 * minute}, {Name: "story", Quiet: 2 * minute}}
	due := func(t Test, runs int) Test { t.Runs = runs; return t }
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
		{"skipped tests go first", 14, []Test{due(tests[1], 1)}, minute, "kill story", "faults"},
		{"skipped again", 2, []Test{due(tests[1], 1)}, minute, "", "faults kill story"},
		{"due test that is gone", 20, []Test{{"old", minute, 1}}, minute, "faults kill story", ""},
		{"part of a skipped test", 14, []Test{{"kill/twice", minute, 0}}, minute, "faults story", "kill kill/twice"},
		{"due test that never fits", 14, []Test{{"old", time.Hour, 9}}, minute, "faults story", "kill"},
		{"part that never fits", 14, []Test{{"kill", 5 * minute, 1}, {"kill/twice", time.Hour, 9}}, minute, "kill story", "faults"},
		{"part of a test that never fits", 14, []Test{{"old", time.Hour, 1}, {"old/part", 8 * minute, 9}}, minute, "faults story", "kill"},
		{"of due tests, the longest first", 8, []Test{due(tests[0], 1), due(tests[1], 2), due(tests[2], 1)}, minute, "kill story", "faults"},
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
	if ok, _ := b.Take(Test{Name: "all", Quiet: 1000 * time.Hour}, time.Now()); !ok || len(b.Left()) > 0 {
		t.Error("left out without an end")
	}
}

func TestReadWrite(t *testing.T) {
	tests := []Test{{"a test/with a subtest", 90 * time.Second, 3}, {"b", 0, 0}}
	var s strings.Builder
	if err := Write(&s, tests); err != nil {
		t.Fatal(err)
	}
	got, err := Read(strings.NewReader("x 1 y\n\n-3 1 z\n12 y\n12\n12 1 \n12 -1 z\n" + s.String()))
	if err != nil || !slices.Equal(got, tests) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestEveryTestRuns plays runs that have time for a quarter of the tests: none starves.
func TestEveryTestRuns(t *testing.T) {
	ran := map[string]int{}
	var due []Test
	for range 8 {
		now := time.Now()
		b := Budget{Ends: now.Add(4 * time.Minute), Due: due}
		for i := range 16 {
			test := Test{Name: strconv.Itoa(i), Quiet: time.Minute}
			if ok, _ := b.Take(test, now); ok {
				now = now.Add(test.Quiet)
				ran[test.Name]++
			}
		}
		due = b.Left()
	}
	for i := range 16 {
		if ran[strconv.Itoa(i)] != 2 {
			t.Errorf("test %d ran %d times in 8 runs, want 2", i, ran[strconv.Itoa(i)])
		}
	}
}

// TestEveryPartRuns plays runs that have time for a test and one of its eight parts, beside a test that never fits.
func TestEveryPartRuns(t *testing.T) {
	ran := map[string]int{}
	var due []Test
	for range 24 {
		now := time.Now()
		b := Budget{Ends: now.Add(4 * time.Minute), Due: due}
		take := func(name string, quiet time.Duration) bool {
			ok, _ := b.Take(Test{Name: name, Quiet: quiet}, now)
			if ok {
				now = now.Add(quiet)
				ran[name]++
			}
			return ok
		}
		take("early", time.Minute)
		take("huge", time.Hour)
		if take("whole", time.Minute) {
			for i := range 8 {
				take("whole/"+strconv.Itoa(i), 3*time.Minute)
			}
		}
		due = b.Left()
	}
	for i := range 8 {
		if name := "whole/" + strconv.Itoa(i); ran[name] < 2 {
			t.Errorf("%s ran %d times in 24 runs", name, ran[name])
		}
	}
	if ran["early"] == 0 || ran["huge"] > 0 {
		t.Errorf("ran: %v", ran)
	}
}
