package writeout

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"homelab/lab"
)

// denying is a source with an unreadable file.
type denying struct{ fs.FS }

func (d denying) Open(name string) (fs.File, error) {
	if name == "environments/prod/environment.yaml" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return d.FS.Open(name)
}

func TestEstate(t *testing.T) {
	source := os.DirFS("../..")
	dir := filepath.Join(t.TempDir(), "deep", "estate")
	if err := Estate(source, dir); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{".gitignore", "addons/identity/chart/templates/serviceaccount.yaml", "addons/root.yaml"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Error(err)
		}
	}
	for _, file := range []string{"main.go", "lab", "go.mod", ".git"} {
		if _, err := os.Stat(filepath.Join(dir, file)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is not part of an estate: %v", file, err)
		}
	}
	var failed *lab.Error
	if err := Estate(source, dir); !errors.As(err, &failed) || failed.Exit != lab.ExitInvalid {
		t.Errorf("over an estate: %v", err)
	}
	if err := Estate(source, filepath.Join(dir, ".gitignore")); !errors.As(err, &failed) {
		t.Errorf("over a file: %v", err)
	}
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := Estate(source, dir); err != nil {
		t.Errorf("an empty folder: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 5 {
		t.Errorf("an empty folder now contains %v, %v", entries, err)
	}

	// An incomplete read writes nothing.
	dir = filepath.Join(t.TempDir(), "estate")
	if err := Estate(denying{source}, dir); err == nil {
		t.Error("an unreadable source was written")
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
