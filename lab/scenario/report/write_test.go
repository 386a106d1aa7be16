package report

import (
	"os"
	"path/filepath"
	"testing"

	"homelab/lab/scenario"
)

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pages")
	if page, err := WritePage(dir, &scenario.Result{Scenario: "drift"}); page != "" || err != nil {
		t.Errorf("unplayed story: %q, %v", page, err)
	}
	played := &scenario.Result{Scenario: "drift", Verdict: scenario.Passed, Steps: []scenario.StepResult{{Number: 1, Title: "look"}}}
	page, err := WritePage(dir, played)
	if err != nil || page != filepath.Join(dir, "drift.html") {
		t.Fatalf("%q, %v", page, err)
	}
	if fi, err := os.Stat(page); err != nil || fi.Mode().Perm() != 0o600 || fi.Size() == 0 {
		t.Errorf("%v, %v", fi, err)
	}
	if _, err := WritePage(page, played); err == nil {
		t.Error("written below a file")
	}
	file := filepath.Join(dir, "junit.xml")
	if err := WriteJUnit("", nil); err != nil {
		t.Error(err)
	}
	if err := WriteJUnit(file, []*scenario.Result{played}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
