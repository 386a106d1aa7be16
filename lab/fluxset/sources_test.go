package fluxset

import (
	"os"
	"path/filepath"
	"testing"

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
	a := artifact{root.FS(), gitignore.NewMatcher(nil), map[string]bool{}}
	for name, want := range map[string]bool{"real/file.yaml": true, "real/deep/file.yaml": true, "real/link.yaml": false, "folder": false, "folder/deep/file.yaml": false} {
		f, err := a.Open(name)
		if err == nil {
			err = f.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	entries, err := a.ReadDir("real")
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}
