package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"homelab/lab"
)

// TestDiffDocumentation runs the examples of docs/diff.md on the default estate: go test -update writes their output.
func TestDiffDocumentation(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"} {
		t.Setenv(name, filepath.Join(home, name))
	}
	t.Setenv("LAB_IMAGES", "source")
	run := func(args ...string) string {
		t.Helper()
		out, err := os.Create(filepath.Join(home, "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		if code := Run(t.Context(), Env{Args: append([]string{"lab"}, args...), Out: out, Err: out, Getenv: os.Getenv, Estate: os.DirFS(root)}); code != lab.ExitDone {
			t.Fatalf("%v: exit %d", args, code)
		}
		text, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	estate := filepath.Join(home, "homelab")
	run("init", estate)
	t.Chdir(estate)
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@lab.invalid", "commit", "--quiet", "-m", "one"}} {
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	edit := func(file, old, with string) {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), old) {
			t.Fatalf("%s: %v", file, err)
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), old, with, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	edit("addons/identity/chart/templates/configmap.yaml", "\ndata:\n", "\ndata:\n  team: platform\n")
	edit("addons/podinfo/applicationset.yaml", "{environment: prod}}\n              values: {addonChartVersion: 6.7.0}", "{environment: prod}}\n              values: {addonChartVersion: 6.9.2}")

	file := filepath.Join(root, "docs/diff.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	commit := regexp.MustCompile(`\([0-9a-f]{10}\)`)
	examples := 0
	got := regexp.MustCompile("(?s)```\n(lab diff [^\n]*)\n.*?```").ReplaceAllStringFunc(string(text), func(block string) string {
		command, _, _ := strings.Cut(strings.TrimPrefix(block, "```\n"), "\n")
		examples++
		return "```\n" + command + "\n\n" + commit.ReplaceAllString(run(strings.Fields(command)[1:]...), "(3f2c1d90a7)") + "```"
	})
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != string(text) || examples != 2 {
		t.Errorf("docs/diff.md has another output, want\n%s", got)
	}
}
