package forge

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A tree's hash is Git's.
func TestTreeHash(t *testing.T) {
	b := newBench(t)
	b.write(b.dir, map[string]string{"a": "1\n", "a.b": "2\n", "a-c/x": "3\n", "d/e/f": "4\n", "d.e": "5\n", "run.sh": "#!/bin/sh\n"})
	b.must(os.Chmod(filepath.Join(b.dir, "run.sh"), 0o755))
	b.must(os.Symlink("d/e", filepath.Join(b.dir, "link")))
	got, err := b.tree().Hash()
	b.must(err)
	b.git(b.dir, "init", "--quiet")
	b.git(b.dir, "add", "--all")
	if want := b.git(b.dir, "write-tree"); got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
}

// BenchmarkTree compares a clone of 5,000 files, as every run does that has nothing to push.
func BenchmarkTree(bm *testing.B) {
	dir := bm.TempDir()
	for i := range 5000 {
		file := filepath.Join(dir, fmt.Sprintf("apps/%d/base/%d.yaml", i%50, i))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			bm.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.Repeat(fmt.Sprintf("value: %d\n", i), 200)), 0o644); err != nil {
			bm.Fatal(err)
		}
	}
	for bm.Loop() {
		if _, err := (Tree{FS: os.DirFS(dir), Dir: dir}).Hash(); err != nil {
			bm.Fatal(err)
		}
	}
}
