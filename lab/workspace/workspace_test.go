package workspace

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/state"
)

// home sets up folders for home, state, cache and work.
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

func TestEnclosingEstateNamesLab(t *testing.T) {
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

func TestFolderWithoutEstate(t *testing.T) {
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

func TestLabKeepsEstate(t *testing.T) {
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
	t.Chdir(t.TempDir()) // empty: the lab's own estate
	if w, err := Open(Options{Name: "demo"}); err != nil || w.Estate.Dir != wd {
		t.Errorf("%+v, %v", w, err)
	}
}

func TestSetAsideRecord(t *testing.T) {
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
	lines := 0
	if err := w.SetAside(func(string) { lines++ }); err != nil || lines != 1 || w.Readable() != nil {
		t.Errorf("%d, %v", lines, err)
	}
}

func TestLockedOrDownRemovesFolder(t *testing.T) {
	home(t)
	w, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	failed := errors.New("failed")
	if err := w.LockedOrDown(t.Context(), func(context.Context) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(w.Dir.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// The lab may be deleted between the reading and the locking.
func TestLockedStaleRecord(t *testing.T) {
	wd := home(t)
	dir, err := state.Open("demo")
	if err != nil {
		t.Fatal(err)
	}
	garble := func() error {
		return errors.Join(dir.Create(), os.WriteFile(filepath.Join(dir.Path, "lab.json"), []byte("{"), 0o600))
	}
	for _, c := range []struct {
		name   string
		change func() error
	}{
		{"made", func() error { return dir.Save(state.Record{Lab: "demo", Estate: wd, Ports: state.Ports{Forge: 3000}}) }},
		{"changed", func() error {
			return dir.Save(state.Record{Lab: "demo", Estate: wd, Engine: state.Engine{Type: lab.EngineFlux}})
		}},
		{"removed", dir.Remove},
		{"garbled", garble},
	} {
		name, change := c.name, c.change
		if name == "made" {
			err = dir.Remove()
		} else {
			err = dir.Save(state.Record{Lab: "demo", Estate: wd})
		}
		w, openErr := Open(Options{})
		if err := errors.Join(err, openErr); err != nil {
			t.Fatal(err)
		}
		did := 0
		do := func(context.Context) error { did++; return nil }
		if err := w.Locked(t.Context(), do); err != nil || did != 1 {
			t.Errorf("before %s: %v", name, err)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if err := w.Locked(t.Context(), do); code(err) == "" || did != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	w, err := Open(Options{}) // garbled now: lab up renames it under the lock
	if err != nil || w.Locked(t.Context(), func(context.Context) error { return nil }) != nil {
		t.Errorf("%+v, %v", w, err)
	}
}

// In a folder of the same name, another estate's lab must be named to be deleted.
func TestDeleteLabOfOtherFolder(t *testing.T) {
	wd := home(t)
	other := filepath.Join(t.TempDir(), "demo")
	dir, err := state.Open("demo")
	if err := errors.Join(err, os.MkdirAll(filepath.Join(other, "clusters"), 0o755), dir.Save(state.Record{Lab: "demo", Estate: other})); err != nil {
		t.Fatal(err)
	}
	did := 0
	do := func(context.Context) error { did++; return nil }
	w, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, take := range []func(context.Context, func(context.Context) error) error{w.LockedToDelete, w.LockedOrDown} {
		var e *lab.Error
		if err := take(t.Context(), do); !errors.As(err, &e) || e.Code != "other_estate" || did > 0 || len(e.Details) != 2 || e.Cure != "to select it anyway: --name demo" {
			t.Errorf("%v", err)
		}
	}
	named, err := Open(Options{Name: "demo"})
	if err := errors.Join(err, named.LockedToDelete(t.Context(), do), named.LockedOrDown(t.Context(), do)); err != nil || did != 2 {
		t.Errorf("%v", err)
	}
	t.Chdir(other)
	its, err := Open(Options{})
	if err := errors.Join(err, its.LockedToDelete(t.Context(), do)); err != nil || did != 3 {
		t.Errorf("%v", err)
	}
	t.Chdir(wd)
	if err := errors.Join(os.RemoveAll(other), w.LockedToDelete(t.Context(), do)); err != nil || did != 4 { // the estate has moved
		t.Errorf("%v", err)
	}
}

// A change completes even if its reader is gone.
func TestLockedOutlivesReader(t *testing.T) {
	const mark = "LAB_TEST_DONE"
	if done := os.Getenv(mark); done != "" {
		w, err := Open(Options{Name: "demo"})
		if err != nil {
			t.Fatal(err)
		}
		_ = w.Locked(t.Context(), func(context.Context) error {
			for range 3 {
				_, _ = os.Stdout.WriteString("continuing\n")
			}
			return os.WriteFile(done, nil, 0o600)
		})
		return
	}
	home(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from, to, err := os.Pipe()
	if err := errors.Join(err, from.Close()); err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	done := filepath.Join(t.TempDir(), "done")
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestLockedOutlivesReader$")
	cmd.Env, cmd.Stdout = append(os.Environ(), mark+"="+done), to
	_ = cmd.Run() // the test itself ends with a write
	if _, err := os.Stat(done); err != nil {
		t.Error("ended with its reader")
	}
}

func TestSpare(t *testing.T) {
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

func TestFolders(t *testing.T) {
	f := Files{FS: fstest.MapFS{"clusters/dev/cluster.yaml": {}, "clusters/.git/x": {}, "clusters/README.md": {}}}
	if got := f.Folders("clusters"); len(got) != 1 || got[0] != "dev" {
		t.Errorf("%q", got)
	}
	if got := f.Folders("addons"); got != nil {
		t.Errorf("%q", got)
	}
}

func TestSibling(t *testing.T) {
	home(t)
	cut := lab.MaxName - len("-fresh")
	for name, want := range map[string]string{
		"demo":                            "demo-fresh",
		strings.Repeat("a", lab.MaxName):  strings.Repeat("a", cut) + "-fresh",
		strings.Repeat("a", cut-1) + "-a": strings.Repeat("a", cut-1) + "-fresh",
	} {
		w, err := (&Workspace{Name: name}).Sibling("-fresh")
		if err != nil || w.Name != want || w.Dir.Path == "" {
			t.Errorf("%s: %+v, %v; want %s", name, w, err, want)
		}
	}
}
