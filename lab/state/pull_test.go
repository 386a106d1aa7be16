package state

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"homelab/lab"
)

func TestPull(t *testing.T) {
	d := &Dir{Lab: "x", Path: filepath.Join(t.TempDir(), "x")}
	got := "as it was"
	if err := d.LoadPull(&got); err != nil || got != "as it was" {
		t.Errorf("without a file:  %q, %v", got, err)
	}
	if err := d.SavePull(nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(d.Path); err == nil {
		t.Error("the folder was created")
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
		t.Errorf("after delete:  %q, %v", got, err)
	}
}

func TestGarbledPull(t *testing.T) {
	d := &Dir{Lab: "x", Path: filepath.Join(t.TempDir(), "x")}
	file := filepath.Join(d.Path, pullFile)
	if err := errors.Join(d.Create(), os.WriteFile(file, []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var e *lab.Error
	if err := d.LoadPull(&struct{}{}); !errors.As(err, &e) || e.Code != CodeGarbled {
		t.Fatal(err)
	}
	_, cure, _ := strings.Cut(e.Cure, "then rm ")
	if err := os.Remove(cure); err != nil {
		t.Errorf("cure %q: %v", e.Cure, err)
	}
	if err := d.LoadPull(&struct{}{}); err != nil {
		t.Error(err)
	}
}
