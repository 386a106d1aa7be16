//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"homelab/lab/e2e/budget"
)

// ci is the time budget of optional tests. LAB_CI_ENDS is the deadline of the run in Unix seconds, LAB_CI_AIM an earlier end of optional tests, and LAB_CI_RESERVE
// the seconds that later stages take on a quiet machine with two cores. All are optional.
var ci budget.Budget

// leftFile returns the file with the tests that the last run skipped for lack of time. It is outside the checkout, which may change between runs.
func leftFile() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "lab", "ci", "left"), err
}

func openBudget() error {
	ends, err := strconv.ParseInt(os.Getenv("LAB_CI_ENDS"), 10, 64)
	if err != nil {
		return nil
	}
	if aim, err := strconv.ParseInt(os.Getenv("LAB_CI_AIM"), 10, 64); err == nil {
		ends = min(ends, aim)
	}
	ci.Ends = time.Unix(ends, 0)
	if reserve, err := strconv.Atoi(os.Getenv("LAB_CI_RESERVE")); err == nil {
		ci.Reserve = time.Duration(reserve) * time.Second
	}
	name, err := leftFile()
	if err != nil {
		return err
	}
	f, err := os.Open(name)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	ci.Due, err = budget.Read(f)
	return err
}

// closeBudget prints the skipped tests and saves them for the next run.
func closeBudget() error {
	if ci.Ends.IsZero() {
		return nil
	}
	tests := ci.Left()
	skipped := slices.DeleteFunc(slices.Clone(tests), func(t budget.Test) bool { return t.Runs == 0 })
	fmt.Printf("left for the next run: %d tests (this machine takes %.2f times what was estimated)\n", len(skipped), ci.Pace())
	for _, t := range skipped {
		fmt.Printf("    %s\n", t.Name)
	}
	name, err := leftFile()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	// For later stages, in percent, as shells only have integers.
	if err := os.WriteFile(filepath.Join(filepath.Dir(name), "pace"), fmt.Appendf(nil, "%.0f\n", 100*ci.Pace()), 0o644); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := budget.Write(f, tests); err != nil {
		return err
	}
	return f.Close()
}

// must always runs a test, and uses it to measure the machine's speed.
func must(t *testing.T, seconds int) {
	t.Helper()
	clock(t, budget.Test{Name: t.Name(), Quiet: time.Duration(seconds) * time.Second})
}

// tail skips a test if time is short.
func tail(t *testing.T, seconds int) {
	t.Helper()
	test := budget.Test{Name: t.Name(), Quiet: time.Duration(seconds) * time.Second}
	if ok, lacks := ci.Take(test, time.Now()); !ok {
		t.Skipf("postponed to the next run: %s short of time, as this machine takes %.2f times the estimates", lacks.Round(time.Second), ci.Pace())
	}
	clock(t, test)
}

func clock(t *testing.T, test budget.Test) {
	began := time.Now()
	t.Cleanup(func() {
		if !t.Failed() && !t.Skipped() {
			ci.Done(test, time.Since(began))
		}
	})
}
