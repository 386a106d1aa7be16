// Package shard chooses the tests of a CI run: those that always run, those that did not pass when they last ran, and one shard of the others in turn.
package shard

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Size is the time of a shard on the machine of the table. With the tests that always run, it fits into 90 minutes on a machine 2.5 times slower.
const Size = 20 * time.Minute

// When is in which runs a test is played.
type When string

// The values of When
const (
	Always When = "always"
	InTurn When = "in turn"
	SetUp  When = "set-up" // if any other part of its test runs
)

// Test is a row of the table: a test, a part of one, or a stage.
type Test struct {
	Name    string
	When    When
	Seconds int
	Date    string // of the measurement
	Commit  string
}

// Whole returns the name of the test that the part belongs to.
func (t Test) Whole() string {
	whole, _, _ := strings.Cut(t.Name, "/")
	return whole
}

// Read reads the rows of the table in a Markdown document: name, when, seconds, date, commit.
func Read(r io.Reader) ([]Test, error) {
	var tests []Test
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		row, ok := strings.CutPrefix(lines.Text(), "| `")
		if !ok {
			continue
		}
		cells := strings.Split(row, "|")
		if len(cells) != 6 {
			return nil, fmt.Errorf("line %d: %d cells, want name, when, seconds, date and commit", n, len(cells)-1)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		seconds, err := strconv.Atoi(cells[2])
		if err != nil || seconds < 0 {
			return nil, fmt.Errorf("line %d: seconds %q", n, cells[2])
		}
		t := Test{Name: strings.TrimSuffix(cells[0], "`"), When: When(cells[1]), Seconds: seconds, Date: cells[3], Commit: cells[4]}
		if !slices.Contains([]When{Always, InTurn, SetUp}, t.When) {
			return nil, fmt.Errorf("line %d: when %q, want %s, %s or %s", n, t.When, Always, InTurn, SetUp)
		}
		if slices.ContainsFunc(tests, func(o Test) bool { return o.Name == t.Name }) {
			return nil, fmt.Errorf("line %d: %s has two rows", n, t.Name)
		}
		tests = append(tests, t)
	}
	return tests, lines.Err()
}

// Shards cuts the tests that run in turn into the fewest consecutive shards of at most size, as even as possible.
func Shards(tests []Test, size time.Duration) [][]Test {
	limit := int(size.Seconds())
	shards := cut(tests, limit)
	for len(shards) > 0 {
		more := cut(tests, limit-10)
		if len(more) > len(shards) || limit <= 10 {
			break
		}
		shards, limit = more, limit-10
	}
	return shards
}

func cut(tests []Test, limit int) (shards [][]Test) {
	var shard []Test
	for _, t := range tests {
		if t.When != InTurn {
			continue
		}
		if len(shard) > 0 && Cost(tests, append(slices.Clip(shard), t)) > limit {
			shards, shard = append(shards, shard), nil
		}
		shard = append(shard, t)
	}
	if len(shard) > 0 {
		shards = append(shards, shard)
	}
	return shards
}

// Cost returns the seconds that chosen tests add to those that always run, including the set-up of the tests that they are parts of.
func Cost(tests, chosen []Test) (seconds int) {
	for _, t := range chosen {
		seconds += t.Seconds
	}
	for _, t := range tests {
		if t.When != SetUp {
			continue
		}
		of := func(o Test) bool { return o.When != SetUp && o.Whole() == t.Whole() }
		if slices.ContainsFunc(chosen, of) && !slices.ContainsFunc(tests, func(o Test) bool { return o.When == Always && of(o) }) {
			seconds += t.Seconds
		}
	}
	return seconds
}

// Plan is the tests of a run with the reason for each.
type Plan struct {
	Shard, Shards int
	Tests         []Test
	Why           map[string]string // by name
}

// DidNotPass is the reason for a test that did not pass when it last ran.
const DidNotPass = "did not pass"

// Choose returns the plan of a run: what always runs, first, and shard run mod N.
func Choose(tests []Test, first []string, run int) Plan {
	shards := Shards(tests, Size)
	p := Plan{Shards: len(shards), Why: map[string]string{}}
	for _, t := range tests {
		switch {
		case t.When == Always:
			p.Why[t.Name] = string(Always)
		case t.When == InTurn && slices.Contains(first, t.Name):
			p.Why[t.Name] = DidNotPass
		}
	}
	if len(shards) > 0 {
		p.Shard = run % len(shards)
		for _, t := range shards[p.Shard] {
			if p.Why[t.Name] == "" {
				p.Why[t.Name] = fmt.Sprintf("shard %d", p.Shard)
			}
		}
	}
	for _, t := range tests {
		if t.When == SetUp && slices.ContainsFunc(tests, func(o Test) bool { return o.Whole() == t.Whole() && p.Why[o.Name] != "" && o.When != SetUp }) {
			p.Why[t.Name] = string(SetUp)
		}
		if p.Why[t.Name] != "" {
			p.Tests = append(p.Tests, t)
		}
	}
	return p
}

// Seconds returns the time of the plan on the machine of the table.
func (p Plan) Seconds() (n int) {
	for _, t := range p.Tests {
		n += t.Seconds
	}
	return n
}
