package lab_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stages returns a command that runs .ci/stages with a go command that records the stages that begin in a file, and ends with the exit status of a function of
// the shell named as the stage, if there is one.
func stages(t *testing.T, functions string) (cmd *exec.Cmd, began func() []string) {
	t.Helper()
	script, err := filepath.Abs("../.ci/stages")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	record := filepath.Join(dir, "record")
	fake := "#!/usr/bin/env bash\n" + functions + "\nstage=${!#}\necho \"$stage\" >>" + record + "\necho \"output of $stage\"\n" +
		"case $stage in *-*) exit 0 ;; esac\nif declare -F \"$stage\" >/dev/null; then \"$stage\"; fi\n"
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(fake), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd = exec.CommandContext(ctx, script)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+dir, "TMPDIR="+dir, "LAB_CI_ENDS=", "LAB_CI_PLAN=", "LAB_CI_RESULTS=", "LAB_CI_UNIT=")
	return cmd, func() []string {
		data, err := os.ReadFile(record)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Fields(string(data))
	}
}

func TestStages(t *testing.T) {
	all := []string{"modules", "lint", "host", "race", "e2e", "contracts", "engine-contract", "flux-contract", "standalone-contract"}
	for _, tc := range []struct {
		name, functions string
		fails           bool
		not             []string // stages that do not begin
	}{
		{name: "all pass, race at the lowest priority", functions: `race() { for _ in {1..100}; do [ "$(nice)" != 19 ] || return 0; sleep 0.05; done; false; }`},
		{"lint fails", "lint() { false; }", true, all[2:]},
		{"race fails", "race() { false; }", true, nil},
		{"end-to-end tests fail", "e2e() { false; }", true, all[5:]},
		{"contracts fail", "contracts() { false; }", true, all[6:]},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd, began := stages(t, tc.functions)
			out, err := cmd.CombinedOutput()
			if failed := err != nil; failed != tc.fails {
				t.Errorf("%v, want failure: %t", err, tc.fails)
			}
			ran := began()
			for _, stage := range all {
				want := !slices.Contains(tc.not, stage)
				if got := slices.Contains(ran, stage); got != want {
					t.Errorf("%s began: %t, want %t", stage, got, want)
				}
				if got := strings.Contains(string(out), "output of "+stage+"\n"); got != want {
					t.Errorf("output of %s printed: %t, want %t", stage, got, want)
				}
			}
		})
	}
}

// An interruption ends stages in the foreground and in the background.
func TestStagesInterrupted(t *testing.T) {
	// A builtin waits, not sleep: between fork and exec a child loses an interrupt, and bash ignores one that its child survives.
	cmd, began := stages(t, `mkfifo "$TMPDIR/never" 2>/dev/null
e2e() { read -rt 60 _ <>"$TMPDIR/never"; }
race() { e2e; }`)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out // inherited by all stages, so that Wait waits for their end
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tick, tooLate := time.NewTicker(10*time.Millisecond), time.After(30*time.Second)
	defer tick.Stop()
	for ran := began(); !slices.Contains(ran, "race") || !slices.Contains(ran, "e2e"); ran = began() {
		select {
		case <-tick.C:
		case <-tooLate:
			t.Fatalf("began only %q", ran)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit status %d, want 130\n%s", code, &out)
	}
	if took := time.Since(start); took > 40*time.Second {
		t.Errorf("stages went on until %s", took)
	}
}
