//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"homelab/lab/e2e/budget"
)

// ci is the time that CI has for these tests: LAB_CI_ENDS says when it is over, in seconds since 1970, and LAB_CI_RESERVE how many seconds what follows
// takes on a quiet machine of two cores. Without them there is no end.
var ci budget.Budget

// leftFile names what the last run had no time for. It stays outside the checkout, which may be another one next time.
func leftFile() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "lab", "ci", "left"), err
}

func openBudget() error {
	ends, err := strconv.ParseInt(os.Getenv("LAB_CI_ENDS"), 10, 64)
	if err != nil {
		return nil
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

// closeBudget prints what there was no time for, and keeps it for the next run. What a run with -run did not come to is still due.
func closeBudget() error {
	if ci.Ends.IsZero() {
		return nil
	}
	tests := ci.Left()
	fmt.Printf("left for the next run: %d tests (this machine takes %.2f times what was estimated)\n", len(tests), ci.Pace())
	for _, t := range tests {
		fmt.Printf("    %s\n", t.Name)
	}
	name, err := leftFile()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	// For the stages that follow, in percent: shells count in whole numbers.
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

// must has a test run in any case, and learns from it how fast the machine is.
func must(t *testing.T, seconds int) {
	t.Helper()
	clock(t, budget.Test{Name: t.Name(), Quiet: time.Duration(seconds) * time.Second})
}

// tail leaves a test for the next run where time is short.
func tail(t *testing.T, seconds int) {
	t.Helper()
	test := budget.Test{Name: t.Name(), Quiet: time.Duration(seconds) * time.Second}
	if ok, lacks := ci.Take(test, time.Now()); !ok {
		t.Skipf("left for the next run: %s too little time, as this machine takes %.2f times what was estimated", lacks.Round(time.Second), ci.Pace())
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
