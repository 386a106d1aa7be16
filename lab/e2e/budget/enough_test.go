package budget

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The stages of contracts take turns once a run has reached its aim.
func TestEnough(t *testing.T) {
	script, err := filepath.Abs("../../../.ci/enough")
	if err != nil {
		t.Fatal(err)
	}
	cache, now := t.TempDir(), time.Now()
	env := append(os.Environ(), "XDG_CACHE_HOME="+cache, "LAB_CI_AIM="+strconv.FormatInt(now.Unix(), 10), "LAB_CI_ENDS="+strconv.FormatInt(now.Add(time.Hour).Unix(), 10))
	run := func(due string, args ...string) (string, bool) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), script, args...)
		cmd.Env = append(env, "LAB_CI_DUE="+due)
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err == nil
	}
	due := func(want string) {
		t.Helper()
		if got, ok := run("", "due"); !ok || got != want {
			t.Errorf("due %q, want %q", got, want)
		}
	}
	due("all")
	for _, image := range []string{"source", "kustomize", "helm", "notification"} {
		file := filepath.Join(cache, "lab", "store", image+"-controller-0123456789abcdef", "image.tar")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stages := []string{"contracts", "engine-contract", "flux-contract", "standalone-contract"}
	for i, stage := range stages {
		if _, ok := run("all", stage); !ok {
			t.Errorf("first run: no time for %s", stage)
		}
		if _, ok := run(stages[0], stage); ok != (i == 0) {
			t.Errorf("%s after the aim: %t", stage, ok)
		}
		if _, ok := run("", stage, "took", "5"); !ok {
			t.Errorf("%s: not recorded", stage)
		}
		at := now.Add(time.Duration(i-10) * time.Minute)
		if err := os.Chtimes(filepath.Join(cache, "lab", "ci", stage), at, at); err != nil {
			t.Fatal(err)
		}
	}
	due("contracts")
	if err := os.Remove(filepath.Join(cache, "lab", "ci", "flux-contract")); err != nil {
		t.Fatal(err)
	}
	due("flux-contract")
}
