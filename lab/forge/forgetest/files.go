package forgetest

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
)

// served checks that the forge's head has exactly these files.
func served(t *testing.T, f Forge, want map[string]string) {
	t.Helper()
	files, err := f.Estate(t.Context())
	must(t, err)
	if err := fstest.TestFS(files, slices.Collect(maps.Keys(want))...); err != nil {
		t.Error(err)
	}
	got := map[string]string{}
	must(t, fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		got[name] = string(text)
		return err
	}))
	if !maps.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte(text), 0o644))
}
