package review_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the output into docs/review.md")

// example matches a command with its output.
var example = regexp.MustCompile("(?ms)^```\n(lab [^\n]*)\n.*?^```\n")

// TestDocumentation runs the examples of docs/review.md in a repository for Flux: go test -update writes their output.
func TestDocumentation(t *testing.T) {
	archive, err := txtar.ParseFile(filepath.Join(root, "lab/draft/testdata/flux-fleet.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "fleet")
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LAB_IMAGES=source", "GIT_AUTHOR_DATE=2026-11-27T09:00:00Z", "GIT_COMMITTER_DATE=2026-11-27T09:00:00Z",
		"GIT_AUTHOR_NAME=she", "GIT_AUTHOR_EMAIL=she@lab.invalid", "GIT_COMMITTER_NAME=she", "GIT_COMMITTER_EMAIL=she@lab.invalid",
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return string(out)
	}
	folder := strings.Fields(string(archive.Files[0].Data))[1]
	for _, f := range archive.Files {
		name, ok := strings.CutPrefix(f.Name, folder+"/")
		if !ok {
			continue
		}
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run("git", "init", "--quiet", "--initial-branch", "main")
	run("git", "add", "--all")
	run("git", "commit", "--quiet", "--message", "one")
	const changed = "ingress/release.yaml"
	text, err := os.ReadFile(filepath.Join(dir, changed))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, changed), []byte(strings.ReplaceAll(string(text), "1.x", "1.2.0")), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	run("git", "commit", "--quiet", "--all", "--message", "two")
	file := filepath.Join(root, "docs/review.md")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	got := example.ReplaceAllStringFunc(string(page), func(block string) string {
		examples++
		command := example.FindStringSubmatch(block)[1]
		return "```\n" + command + "\n\n" + strings.TrimSpace(run(strings.Fields(command)...)) + "\n```\n"
	})
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != string(page) || examples != 2 {
		t.Errorf("docs/review.md has other output than\n%s", got)
	}
}
