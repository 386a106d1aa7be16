package documents_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/cli"
	"homelab/lab/e2e/documents"
)

var update = flag.Bool("update", false, "write the golden file")

// TestCommands checks, without a lab, that every documented command exists with its flags, and that no line of Elsewhere is obsolete.
func TestCommands(t *testing.T) {
	here, elsewhere, err := documents.Commands(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "commands.golden")
	got := strings.Join(here, "\n") + "\n"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("documented commands differ from %s.\nA command that succeeds on any converged lab: go test ./lab/e2e/documents -update. Any other: add to Elsewhere.\ngot:\n%swant:\n%s", golden, got, want)
	}
	for command := range documents.Elsewhere {
		if !slices.Contains(elsewhere, command) {
			t.Errorf("%s is in no document", command)
		}
	}
	parts := e2eSources(t)
	for command, test := range documents.Elsewhere {
		for part := range strings.SplitSeq(strings.TrimPrefix(test, "Test"), "/") {
			if name := strings.ReplaceAll(part, "_", " "); strings.HasPrefix(test, "Test") && !strings.Contains(parts, `"`+name+`"`) && !strings.Contains(parts, "func Test"+name+"(") {
				t.Errorf("%s: no test %s", command, test)
			}
		}
	}
	for _, command := range append(here, elsewhere...) {
		if out, code := help(t, command); code != lab.ExitDone {
			t.Errorf("%s: exit %d\n%s", command, code, out)
		}
	}
}

// help parses a command line without running it.
func help(t *testing.T, command string) (string, lab.Exit) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	code := cli.Run(t.Context(), cli.Env{Args: append(strings.Fields(command), "--help"), Out: out, Err: out, Getenv: os.Getenv})
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	if code == lab.ExitDone && !strings.Contains(string(text), "USAGE:") {
		t.Fatalf("%s was run:\n%s", command, text)
	}
	return string(text), code
}

// e2eSources returns the sources of the end-to-end tests.
func e2eSources(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
