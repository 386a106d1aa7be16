package runner

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
)

// A static program needs nothing, a dynamic one its loader and libraries, and a script is none.
func TestNeeded(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var e *lab.Error
	if _, err := needed(script); !errors.As(err, &e) || e.Code != "runner_program" || e.Cure == "" {
		t.Errorf("%v", err)
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	files, err := needed(sh)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: %v", f, err)
		}
	}
	if dynamic := slices.ContainsFunc(files, func(f string) bool { return strings.Contains(f, "libc.") }); !dynamic {
		t.Logf("%s is static", sh)
	}
}
