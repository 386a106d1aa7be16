package cli

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInRepository(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := inRepository(dir); got != "" {
		t.Errorf("%q without a repository", got)
	}
	if err := os.Mkdir(filepath.Join(top, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string]string{dir: "a/b", top: ".", "": ""} {
		if got := inRepository(folder); got != want {
			t.Errorf("%s: %q, want %q", folder, got, want)
		}
	}
}
