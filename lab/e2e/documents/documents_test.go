package documents_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/cli"
	"homelab/lab/e2e/documents"
)

// TestCommands checks, without a lab, that every documented command exists with its flags, and that no line of Elsewhere is obsolete.
func TestCommands(t *testing.T) {
	here, elsewhere, err := documents.Commands(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if len(here) < 15 {
		t.Errorf("only %d commands: %v", len(here), here)
	}
	for command := range documents.Elsewhere {
		if !slices.Contains(elsewhere, command) {
			t.Errorf("%s is in no document", command)
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
