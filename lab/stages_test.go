package lab_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+dir, "TMPDIR="+dir, "LAB_CI_ENDS=", "LAB_CI_PLAN=", "LAB_CI_RESULTS=")
	return cmd, func() []string {
		data, err := os.ReadFile(record)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Fields(string(data))
	}
}

func TestStages(t *testing.T) {
	all := []string{"modules", "lint", "host", "test", "race", "e2e", "contracts", "forge-contract", "engine-contract", "flux-contract", "standalone-contract"}
	for _, tc := range []struct {
		name, functions string
		fails           bool
		not             []string // stages that do not begin
	}{
		{name: "all pass, race at the lowest priority", functions: `race() { for _ in {1..100}; do [ "$(nice)" != 19 ] || return 0; sleep 0.05; done; false; }`},
		{"lint fails", "lint() { false; }", true, all[2:]},
		{"unit tests fail", "test() { false; }", true, []string{"race"}},
		{"race fails", "race() { false; }", true, nil},
		{"end-to-end tests fail", "e2e() { false; }", true, nil},
		{"contracts fail", "contracts() { false; }", true, nil},
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

// Unit tests that are not at their end by the deadline are stopped and fail, with what they have printed.
func TestStagesDeadline(t *testing.T) {
	cmd, began := stages(t, "test() { sleep 300; }")
	cmd.Env = append(cmd.Env, fmt.Sprintf("LAB_CI_ENDS=%d", time.Now().Unix()-60))
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "not at their end by the deadline") || !strings.Contains(string(out), "output of test\n") || slices.Contains(began(), "race") {
		t.Errorf("%v\n%s", err, out)
	}
}

// race runs .ci/race with 13 packages, of which go test prints that they passed, but lab/bad, and the last, lab/slow, does not end.
func race(t *testing.T, env ...string) (tested []string, results, out string, err error) {
	t.Helper()
	script, err := filepath.Abs("../.ci/race")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	fake := `#!/usr/bin/env bash
status=0
case $1 in
list) printf 'lab/%s\n' bad b c d e f g h i j k l slow ;;
run) cat ;;
test)
  for arg; do
    case $arg in
    lab/slow) sleep 300 ;;
    lab/bad) printf 'FAIL\tlab/bad\t1.5s\n' && status=1 ;;
    lab/*) printf 'ok  \t%s\t2.5s\n' "$arg" ;;
    esac
  done
  ;;
esac
exit $status
`
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(fake), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	file := filepath.Join(dir, "results")
	cmd := exec.CommandContext(ctx, script)
	cmd.Env = append(append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "LAB_CI_RESULTS="+file, "LAB_CI_PLAN=", "LAB_CI_BUSY="), env...)
	printed, failed := cmd.CombinedOutput()
	data, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^(?:ok  |FAIL)\t(lab/\S+)`).FindAllStringSubmatch(string(printed), -1) {
		tested = append(tested, m[1])
	}
	return tested, string(data), string(printed), failed
}

func TestRace(t *testing.T) {
	busy := filepath.Join(t.TempDir(), "busy")
	if err := os.WriteFile(busy, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name     string
		left     int64 // seconds
		busy     bool
		tested   int
		fails    bool
		contains string
	}{
		{"a sixth", 3600, false, 4, true, "race: 9 of 13 packages wait"},
		{"more beside others, to the deadline", 10, true, 12, true, "race: stopped at the deadline: lab/slow"},
		{"no time", -1, true, 0, false, "race: 13 of 13 packages wait"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			env := []string{fmt.Sprintf("LAB_CI_ENDS=%d", time.Now().Unix()+tc.left)}
			if tc.busy {
				env = append(env, "LAB_CI_BUSY="+busy)
			}
			tested, results, out, err := race(t, env...)
			if (err != nil) != tc.fails || len(tested) != tc.tested || !strings.Contains(out, tc.contains) {
				t.Errorf("%v, tested %q\n%s", err, tested, out)
			}
			if lines := strings.Count(results, "\trace lab/"); lines != tc.tested || strings.Contains(results, "race lab/bad\tfailed\t1\t") != tc.fails {
				t.Errorf("results:\n%s", results)
			}
		})
	}
}

// An interruption ends stages in the foreground and in the background, also where SIGINT is ignored, as in the background of a shell.
func TestStagesInterrupted(t *testing.T) {
	for _, ignored := range []bool{false, true} {
		t.Run(fmt.Sprintf("SIGINT ignored: %t", ignored), func(t *testing.T) { testStagesInterrupted(t, ignored) })
	}
}

func testStagesInterrupted(t *testing.T, ignored bool) {
	// Both stages become cat, which a signal ends at once: a shell may miss one between its last look and a wait.
	dir := t.TempDir()
	running := []string{filepath.Join(dir, "e2e"), filepath.Join(dir, "test")}
	var functions strings.Builder
	for _, fifo := range running {
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&functions, "%s() { exec cat %s; }\n", filepath.Base(fifo), fifo)
	}
	cmd, began := stages(t, functions.String())
	if ignored {
		bash, err := exec.LookPath("bash")
		if err != nil {
			t.Fatal(err)
		}
		cmd.Path, cmd.Args = bash, []string{"bash", "-c", `trap '' INT; exec "$0"`, cmd.Path}
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out // inherited by all stages, so that Wait waits for their end
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tick, tooLate := time.NewTicker(10*time.Millisecond), time.After(30*time.Second)
	defer tick.Stop()
	for len(running) > 0 {
		// A FIFO cannot be opened for writing without waiting until cat reads it (fifo(7)).
		writer, err := os.OpenFile(running[0], os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			defer writer.Close()
			running = running[1:]
			continue
		}
		if !errors.Is(err, syscall.ENXIO) {
			t.Fatal(err)
		}
		select {
		case <-tick.C:
		case <-tooLate:
			t.Fatalf("began only %q", began())
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); errors.Is(err, exec.ErrWaitDelay) {
		t.Error("stages went on after the script")
	}
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit status %d, want 130\n%s", code, &out)
	}
}
