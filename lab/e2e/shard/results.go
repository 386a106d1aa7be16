package shard

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Result is what became of a test in a run.
type Result struct {
	Run     int
	Name    string
	Verdict string // Passed, Failed or Postponed
	Seconds int
	Date    string
	Commit  string
}

// The values of Result.Verdict
const (
	Passed    = "passed"
	Failed    = "failed"
	Postponed = "postponed" // there was no time for it
)

// ResultsFile returns the file of results: LAB_CI_RESULTS, or one outside the checkout, which may change between runs.
func ResultsFile() (string, error) {
	if file := os.Getenv("LAB_CI_RESULTS"); file != "" {
		return file, nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "lab", "ci", "results"), err
}

// Append adds a result to a file.
func Append(file string, r Result) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%d\t%s\t%s\t%d\t%s\t%s\n", r.Run, r.Name, r.Verdict, r.Seconds, cmp.Or(r.Date, "-"), cmp.Or(r.Commit, "-"))
	return errors.Join(err, f.Close())
}

// Results reads a file of results, the oldest first. Lines of another form are ignored: another version may have written them.
func Results(file string) ([]Result, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var results []Result
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		c := strings.Split(lines.Text(), "\t")
		if len(c) != 6 {
			continue
		}
		run, err := strconv.Atoi(c[0])
		seconds, serr := strconv.Atoi(c[3])
		if err != nil || serr != nil || !slices.Contains([]string{Passed, Failed, Postponed}, c[2]) {
			continue
		}
		results = append(results, Result{Run: run, Name: c[1], Verdict: c[2], Seconds: seconds, Date: c[4], Commit: c[5]})
	}
	return results, lines.Err()
}

// Last returns the last result of each test, and the last run.
func Last(results []Result) (last map[string]Result, run int) {
	last = map[string]Result{}
	for _, r := range results {
		last[r.Name] = r
		run = max(run, r.Run)
	}
	return last, run
}

// First returns the tests that did not pass when they last ran.
func First(results []Result) (names []string) {
	last, _ := Last(results)
	for name, r := range last {
		if r.Verdict != Passed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Waiting returns the names in the order of their turn: those that did not pass when they last ran, those that never ran, and the others by run, the oldest first.
func Waiting(results []Result, names []string) []string {
	last, _ := Last(results)
	turn := func(name string) int {
		r, ran := last[name]
		switch {
		case ran && r.Verdict != Passed:
			return -2
		case !ran:
			return -1
		}
		return r.Run
	}
	return slices.SortedStableFunc(slices.Values(names), func(a, b string) int { return cmp.Compare(turn(a), turn(b)) })
}
