package fluxset

import (
	"os"
	"path"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// source-controller drops symlinks.
func TestArtifactWithoutSymlinks(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"real/file.yaml", "real/deep/file.yaml"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"real/link.yaml": "file.yaml", "folder": "real"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	a := artifact{FS: root.FS(), ignored: gitignore.NewMatcher(nil), links: map[string]bool{}, folders: map[string]bool{}}
	for _, name := range []string{"empty/deep", "submodule/.git"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "submodule/file.yaml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"real/file.yaml": true, "real/deep/file.yaml": true, "real/link.yaml": false, "folder": false, "folder/deep/file.yaml": false, "real/deep": true, ".": true, "empty": false, "submodule": false,
	} {
		f, err := a.Open(name)
		if err == nil {
			err = f.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	a.only = []string{"real/deep"}
	for name, want := range map[string]bool{".": false, "real": false, "real/file.yaml": true, "real/deep": false, "real/deep/file.yaml": false} {
		if got := a.hides(name, name == "." || path.Ext(name) == ""); got != want {
			t.Errorf("a sparse checkout hides %s: %t", name, got)
		}
	}
	a.only = nil
	entries, err := a.ReadDir("real")
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	if err := fstest.TestFS(a, "real/file.yaml", "real/deep/file.yaml"); err != nil { // an open folder hides the same
		t.Error(err)
	}
}
