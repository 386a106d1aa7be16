package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"homelab/lab"
)

func TestCureLostEngine(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	engine := func(script string) {
		if err := os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	listing := errors.New(`failed to list nodes: command "docker ps" failed with error: exit status 1`)
	cured := &lab.Error{Message: "docker is too old", Cure: "update it"}

	engine("exit 1")
	var e *lab.Error
	if got := Cure(listing); !errors.As(got, &e) || e.Code != "no_engine" || e.Exit != lab.ExitFailed || !errors.Is(got, listing) {
		t.Errorf("%v", got)
	} else if strings.Contains(strings.Join(e.Details, "\n"), "docker ps") {
		t.Errorf("the error itself is reported twice: %q", e.Details)
	}
	for _, err := range []error{cured, errors.New("estate: no clusters"), nil} {
		if got := Cure(err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}

	engine(`echo '{"ServerVersion": "28.2.2"}'`)
	if got := Cure(listing); got != listing {
		t.Errorf("with a running engine: %v", got)
	}
}
