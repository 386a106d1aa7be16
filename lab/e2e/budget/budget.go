// Package budget divides the time of a CI run among its tests: mandatory ones always run, others wait for the next run if time is short.
package budget

import (
	"bufio"
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
	Runs  int           // consecutive runs that skipped it
}

// forgotten is the number of runs after which a due test that was not reached is dropped: it may not exist any more.
const forgotten = 20

// Budget is the remaining time of a run. The zero value is unlimited.
type Budget struct {
	Ends    time.Time     // deadline of the run
	Reserve time.Duration // time for later stages, on a quiet machine
	Due     []Test        // skipped by earlier runs; the longer ago, the earlier

	spent, quiet time.Duration // measured duration, and the estimates of the same tests
	left         []Test
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

// Take reports whether there is time for a test at now, and otherwise the lacking time. A test yields to those skipped in more runs.
func (b *Budget) Take(t Test, now time.Time) (ok bool, lacks time.Duration) {
	if b.Ends.IsZero() {
		return true, 0
	}
	if i := slices.IndexFunc(b.Due, func(d Test) bool { return d.Name == t.Name }); i >= 0 {
		t.Runs = b.Due[i].Runs
		b.Due = slices.Delete(b.Due, i, i+1)
	}
	need := t.Quiet + b.Reserve
	for _, d := range b.Due {
		if d.Runs > t.Runs {
			need += d.Quiet
		}
	}
	lacks = time.Duration(float64(need)*b.Pace()) - b.Ends.Sub(now)
	if lacks <= 0 {
		return true, 0
	}
	b.left = append(b.left, t)
	return false, lacks
}

// Left returns the skipped tests, and due ones that were not reached, for the next run.
func (b *Budget) Left() []Test {
	left := append(slices.Clone(b.left), b.Due...)
	for i := range left {
		left[i].Runs++
	}
	return slices.DeleteFunc(left, func(t Test) bool { return t.Runs > forgotten })
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
