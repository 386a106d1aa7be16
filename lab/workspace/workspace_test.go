package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/state"
)

// home gives a test folders of its own for state and cache, and a working folder.
func home(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", filepath.Join(dir, "home"))
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	wd := filepath.Join(dir, "demo")
	if err := os.MkdirAll(filepath.Join(wd, "clusters"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(wd)
	return wd
}

func code(err error) string {
	var e *lab.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestEstateAroundNamesTheLab(t *testing.T) {
	wd := home(t)
	below := filepath.Join(wd, "clusters")
	t.Chdir(below)
	w, err := Open(Options{Embedded: fstest.MapFS{}})
	if err != nil || w.Name != "demo" || w.Estate.Dir != wd || !w.Followed() {
		t.Fatalf("%+v, %v", w, err)
	}
	if w, err := Open(Options{Name: "mine", Embedded: fstest.MapFS{}}); err != nil || w.Name != "mine" {
		t.Errorf("%+v, %v", w, err)
	}
	if _, err := Open(Options{Name: "No Name"}); code(err) != "usage" {
		t.Errorf("%v", err)
	}
	if _, err := Existing(Options{}); code(err) != "no_lab" {
		t.Errorf("%v", err)
	}
}

func TestAFolderWithoutEstateIsDoubted(t *testing.T) {
	home(t)
	t.Chdir(t.TempDir())
	if err := os.WriteFile("file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := Open(Options{Embedded: fstest.MapFS{}})
	if err != nil || code(w.HasEstate()) != "no_estate" || w.Name != BuiltinName {
		t.Fatalf("%+v, %v", w, err)
	}
	w, err = Open(Options{Builtin: true, Embedded: fstest.MapFS{}})
	if err != nil || w.HasEstate() != nil || w.Command("lab up") != "lab up --builtin" {
		t.Errorf("%+v, %v", w, err)
	}
	if _, err := Open(Options{Builtin: true, Estate: "."}); code(err) != "usage" {
		t.Errorf("%v", err)
	}
}

func TestALabKeepsItsEstate(t *testing.T) {
	wd := home(t)
	dir, err := state.Open("demo")
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Save(state.Record{Lab: "demo", Estate: wd}); err != nil {
		t.Fatal(err)
	}
	if w, err := Existing(Options{}); err != nil || w.Ours() != nil {
		t.Errorf("%+v, %v", w, err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.MkdirAll(filepath.Join(other, "clusters"), 0o755); err != nil {
		t.Fatal(err)
	}
	w, err := Open(Options{Name: "demo", Estate: other})
	if err != nil || code(w.Ours()) != "other_estate" {
		t.Errorf("%+v, %v", w, err)
	}
	t.Chdir(t.TempDir()) // an empty folder: the lab's own estate is meant
	if w, err := Open(Options{Name: "demo"}); err != nil || w.Estate.Dir != wd {
		t.Errorf("%+v, %v", w, err)
	}
}

func TestAGarbledRecordIsSetAside(t *testing.T) {
	home(t)
	dir, err := state.Open("demo")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dir.Create(), os.WriteFile(filepath.Join(dir.Path, "lab.json"), []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Existing(Options{}); code(err) != state.CodeGarbled {
		t.Errorf("%v", err)
	}
	w, err := Open(Options{})
	if err != nil || w.Readable() == nil {
		t.Fatalf("%+v, %v", w, err)
	}
	said := 0
	if err := w.SetAside(func(string) { said++ }); err != nil || said != 1 || w.Readable() != nil {
		t.Errorf("%d, %v", said, err)
	}
}

func TestHeldLeavesNoFolderOfALabThatIsDown(t *testing.T) {
	home(t)
	w, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	failed := errors.New("failed")
	if err := w.Held(t.Context(), func(context.Context) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(w.Dir.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestSpareWhatALabNeeds(t *testing.T) {
	home(t)
	w, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Dir.SaveRestoring("ready"); err != nil {
		t.Fatal(err)
	}
	none := errors.New("no such snapshot")
	find := func(name string) error {
		if name == "gone" {
			return none
		}
		return nil
	}
	if err := w.Spare([]string{"old", "gone"}, find); !errors.Is(err, none) {
		t.Errorf("%v", err)
	}
	if err := w.Spare([]string{"old", "ready"}, find); code(err) != "restoring" {
		t.Errorf("%v", err)
	}
	if err := w.Spare([]string{"old"}, find); err != nil {
		t.Errorf("%v", err)
	}
}

func TestFoldersOfAnEstate(t *testing.T) {
	f := Files{FS: fstest.MapFS{"clusters/dev/cluster.yaml": {}, "clusters/.git/x": {}, "clusters/README.md": {}}}
	if got := f.Folders("clusters"); len(got) != 1 || got[0] != "dev" {
		t.Errorf("%q", got)
	}
	if got := f.Folders("addons"); got != nil {
		t.Errorf("%q", got)
	}
}
