// Package budget shares out the time of a CI run among its tests: what has to run runs, and the rest waits for the next run where time is short.
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

// Test is one of the long tail.
type Test struct {
	Name  string
	Quiet time.Duration // what it takes on the machine that estimates were made on, with nothing beside it
}

// Budget is what is left of a run. The zero value has no end and leaves nothing out.
type Budget struct {
	Ends    time.Time     // when the run has to be over
	Reserve time.Duration // quiet, for what comes after the tests
	Due     []Test        // left out of the last run, so that they go first

	spent, quiet time.Duration // what was measured, and what it takes on a quiet machine
	left         []Test
}

// settled is how much has to be measured before the pace is believed.
const settled = 30 * time.Second

// Pace is how many times slower than estimated this machine has been so far; 1 while that is not known.
func (b *Budget) Pace() float64 {
	if b.quiet < settled {
		return 1
	}
	return float64(b.spent) / float64(b.quiet)
}

// Done notes what a test took.
func (b *Budget) Done(t Test, took time.Duration) {
	b.spent += took
	b.quiet += t.Quiet
}

// Take reports whether there is time for a test at now, and if not, how much is lacking. One that ran last time lets those that are due go first.
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

// Left are the tests that there was no time for, and those that were due and were not come to.
func (b *Budget) Left() []Test { return append(slices.Clone(b.left), b.Due...) }

// Write writes tests as Read reads them: a line each, seconds and name.
func Write(w io.Writer, tests []Test) error {
	for _, t := range tests {
		if _, err := fmt.Fprintf(w, "%.0f %s\n", t.Quiet.Seconds(), t.Name); err != nil {
			return err
		}
	}
	return nil
}

// Read reads tests. A line that says nothing is left out: another version may have written it.
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
