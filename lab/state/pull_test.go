package state

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPull(t *testing.T) {
	d := &Dir{Lab: "x", Path: filepath.Join(t.TempDir(), "x")}
	got := "as it was"
	if err := d.LoadPull(&got); err != nil || got != "as it was" {
		t.Errorf("nothing kept, and read %q, %v", got, err)
	}
	if err := d.SavePull(nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(d.Path); err == nil {
		t.Error("the folder was made for nothing")
	}
	if err := d.SavePull("kept"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(d.Path, "pull.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := d.LoadPull(&got); err != nil || got != "kept" {
		t.Errorf("read %q, %v", got, err)
	}
	if err := d.SavePull(nil); err != nil {
		t.Fatal(err)
	}
	got = "as it was"
	if err := d.LoadPull(&got); err != nil || got != "as it was" {
		t.Errorf("forgotten, and read %q, %v", got, err)
	}
}
