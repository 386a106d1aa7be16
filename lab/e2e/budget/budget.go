// Package budget divides the time of a CI run among its tests: mandatory ones always run, others wait for the next run if time is short.
package budget

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Test is an optional test.
type Test struct {
	Name  string
	Quiet time.Duration // duration on the machine of the estimates, without other load
	Runs  int           // consecutive runs that skipped it; 0 if only parts of it were skipped
}

// Budget is the remaining time of a run. The zero value is unlimited.
type Budget struct {
	Ends    time.Time     // deadline of the run
	Reserve time.Duration // time for later stages, on a quiet machine
	Due     []Test        // skipped by earlier runs; the longer ago, the earlier

	spent, quiet time.Duration // measured duration, and the estimates of the same tests
	left, taken  []Test
}

// settled is the duration to measure before the pace is used.
const settled = 30 * time.Second

// Pace returns how many times slower than estimated this machine has been so far; 1 if unknown.
func (b *Budget) Pace() float64 {
	if b.quiet < settled {
		return 1
	}
	return float64(b.spent) / float64(b.quiet)
}

// Done records the duration of a test.
func (b *Budget) Done(t Test, took time.Duration) {
	b.spent += took
	b.quiet += t.Quiet
}

// Take reports whether there is time for a test at now, and otherwise the lacking time. A test yields to those skipped in more runs, as far as there is time for them.
func (b *Budget) Take(t Test, now time.Time) (ok bool, lacks time.Duration) {
	if b.Ends.IsZero() {
		return true, 0
	}
	if i := slices.IndexFunc(b.Due, func(d Test) bool { return d.Name == t.Name }); i >= 0 {
		t.Runs = b.Due[i].Runs
		b.Due = slices.Delete(b.Due, i, i+1)
	}
	t.Runs = b.urgency(t)
	free := time.Duration(float64(b.Ends.Sub(now))/b.Pace()) - b.Reserve
	var skipped []Test
	for _, d := range b.byUrgency() {
		switch {
		case d.Runs <= t.Runs || d.partOf(t):
		case d.Quiet > free || slices.ContainsFunc(skipped, d.partOf):
			skipped = append(skipped, d)
		default:
			free -= d.Quiet
		}
	}
	if t.Quiet <= free {
		b.taken = append(b.taken, t)
		return true, 0
	}
	b.left = append(b.left, t)
	return false, time.Duration(float64(t.Quiet-free) * b.Pace())
}

func (t Test) partOf(whole Test) bool { return strings.HasPrefix(t.Name, whole.Name+"/") }

// urgency is the highest number of runs that skipped the test or a part of it, as the part cannot run without it.
func (b *Budget) urgency(t Test) int {
	for _, d := range b.Due {
		if d.partOf(t) {
			t.Runs = max(t.Runs, d.Runs)
		}
	}
	return t.Runs
}

// byUrgency returns the due tests, the most urgent first, and tests before their parts.
func (b *Budget) byUrgency() []Test {
	due := slices.Clone(b.Due)
	for i, d := range due {
		due[i].Runs = b.urgency(d)
	}
	slices.SortStableFunc(due, func(x, y Test) int { return cmp.Or(cmp.Compare(y.Runs, x.Runs), cmp.Compare(x.Name, y.Name)) })
	return due
}

// Left returns the skipped tests for the next run, with due parts of them, and the tests that skipped ones are part of. Other due tests that were not reached do not
// exist any more.
func (b *Budget) Left() []Test {
	left := slices.Clone(b.left)
	for _, d := range b.Due {
		if slices.ContainsFunc(b.left, d.partOf) {
			left = append(left, d)
		}
	}
	for i := range left {
		left[i].Runs++
	}
	for _, whole := range b.taken {
		if slices.ContainsFunc(b.left, func(t Test) bool { return t.partOf(whole) }) {
			whole.Runs = 0
			left = append(left, whole)
		}
	}
	return left
}

// Write writes tests for Read: a line each, with seconds, runs and name.
func Write(w io.Writer, tests []Test) error {
	for _, t := range tests {
		if _, err := fmt.Fprintf(w, "%.0f %d %s\n", t.Quiet.Seconds(), t.Runs, t.Name); err != nil {
			return err
		}
	}
	return nil
}

// Read reads tests. Invalid lines are ignored: another version may have written them.
func Read(r io.Reader) ([]Test, error) {
	var tests []Test
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), " ", 3)
		if len(fields) < 3 || fields[2] == "" {
			continue
		}
		seconds, err := strconv.Atoi(fields[0])
		runs, rerr := strconv.Atoi(fields[1])
		if err != nil || rerr != nil || seconds < 0 || runs < 0 {
			continue
		}
		tests = append(tests, Test{Name: fields[2], Quiet: time.Duration(seconds) * time.Second, Runs: runs})
	}
	return tests, lines.Err()
}
