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
}

// Budget is the remaining time of a run. The zero value is unlimited.
type Budget struct {
	Ends    time.Time     // deadline of the run
	Reserve time.Duration // time for later stages, on a quiet machine
	Due     []Test        // skipped by the last run, so they go first

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

// Take reports whether there is time for a test at now, and otherwise the lacking time. Tests that ran last time yield to due ones.
func (b *Budget) Take(t Test, now time.Time) (ok bool, lacks time.Duration) {
	if b.Ends.IsZero() {
		return true, 0
	}
	need := t.Quiet + b.Reserve
	due := slices.ContainsFunc(b.Due, func(d Test) bool { return d.Name == t.Name })
	b.Due = slices.DeleteFunc(b.Due, func(d Test) bool { return d.Name == t.Name })
	if !due {
		for _, d := range b.Due {
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

// Left returns the skipped tests, and due ones that were not reached.
func (b *Budget) Left() []Test { return append(slices.Clone(b.left), b.Due...) }

// Write writes tests for Read: a line each, seconds and name.
func Write(w io.Writer, tests []Test) error {
	for _, t := range tests {
		if _, err := fmt.Fprintf(w, "%.0f %s\n", t.Quiet.Seconds(), t.Name); err != nil {
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
		seconds, name, ok := strings.Cut(lines.Text(), " ")
		n, err := strconv.Atoi(seconds)
		if !ok || err != nil || n < 0 || name == "" {
			continue
		}
		tests = append(tests, Test{Name: name, Quiet: time.Duration(n) * time.Second})
	}
	return tests, lines.Err()
}
