package forge

import (
	"os"
	"path/filepath"
	"testing"
)

// A failed pull reports the error and stays incomplete, and nothing is pushed until it is completed.
func TestPullWriteError(t *testing.T) {
	for _, name := range []string{"a", "bin.forge", "new"} {
		b, notes := newPullBench(t)
		b.write(b.dir, map[string]string{"a": "1\n", "bin": "1\x00"})
		_, err := b.push()
		b.must(err)
		b.theirs(map[string]string{"a": "9\n", "bin": "9\x00", "new": "9\n"})
		b.write(b.dir, map[string]string{"bin": "2\x00"})
		way := filepath.Join(b.dir, temporary(name))
		b.must(os.MkdirAll(filepath.Join(way, "empty"), 0o755))
		if _, err := b.pull(); err == nil || coded(err, "conflict") {
			t.Errorf("%s: %v", name, err)
		}
		if notes.data == nil {
			t.Errorf("%s: no journal", name)
		}
		if _, err := b.push(); !coded(err, "conflict") {
			t.Errorf("%s: pushed meanwhile: %v", name, err)
		}
		b.must(os.RemoveAll(way))
		if _, err := b.pull(); !coded(err, "conflict") {
			t.Errorf("%s: second call: %v", name, err)
		}
		if got := onDisk(t, b.dir); got["a"] != "9\n" || got["bin"] != "2\x00" || got["bin.forge"] != "9\x00" || got["new"] != "9\n" {
			t.Errorf("%s: on disk are %q", name, got)
		}
	}
}

// Empty folders are removed, including parents; others stay.
func TestPullRemovesEmptyFolders(t *testing.T) {
	b, _ := newPullBench(t)
	b.write(b.dir, map[string]string{"d/e/f": "1\n", "d/g/h": "1\n", "x/y/z": "1\n", "k": "1\n"})
	_, err := b.push()
	b.must(err)
	b.theirs(map[string]string{"d/e/f": "", "x/y/z": ""})
	_, err = b.pull()
	b.must(err)
	for name, want := range map[string]bool{"d": true, "d/g": true, "d/e": false, "x": false} {
		if _, err := os.Stat(filepath.Join(b.dir, name)); (err == nil) != want {
			t.Errorf("%s exists: %t", name, err == nil)
		}
	}
}

// Files saved during a pull are neither overwritten nor removed.
func TestPullConcurrentSave(t *testing.T) {
	for name, theirs := range map[string]string{"changed": "9\n", "removed": ""} {
		b, _ := newPullBench(t)
		b.write(b.dir, map[string]string{"a": "1\n", "b": "1\n"})
		_, err := b.push()
		b.must(err)
		b.theirs(map[string]string{"a": theirs})
		p, done := b.planned()
		defer done()
		b.write(b.dir, map[string]string{"a": "saved\n"})
		if err := p.write(p.Changes); !coded(err, "changed") {
			t.Errorf("%s: %v", name, err)
		}
		if got := onDisk(t, b.dir)["a"]; got != "saved\n" {
			t.Errorf("%s: on disk is %q", name, got)
		}
	}
}

// Executables of others are pulled as such.
func TestPullExecutable(t *testing.T) {
	b, _ := newPullBench(t)
	b.write(b.dir, map[string]string{"a": "1\n"})
	_, err := b.push()
	b.must(err)
	dir := filepath.Join(t.TempDir(), "clone")
	b.git(b.dir, "clone", "--quiet", b.remote.URL, dir)
	b.write(dir, map[string]string{"run.sh": "#!/bin/sh\n"})
	b.must(os.Chmod(filepath.Join(dir, "run.sh"), 0o755))
	b.git(dir, "add", "run.sh")
	b.git(dir, "-c", "user.name=ann", "-c", "user.email=ann@example.org", "commit", "--quiet", "-m", "theirs")
	b.git(dir, "push", "--quiet")
	_, err = b.pull()
	b.must(err)
	if info, err := os.Stat(filepath.Join(b.dir, "run.sh")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("%v, %v", info, err)
	}
}
