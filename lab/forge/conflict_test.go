package forge

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
)

// conflicted returns a working tree with two conflicts of a pull: markers in a, and bin.forge next to bin.
func conflicted(t *testing.T) (*bench, *slate) {
	t.Helper()
	b, notes := newPullBench(t)
	b.write(b.dir, map[string]string{"a": "1\n", "bin": "1\x00"})
	_, err := b.push()
	b.must(err)
	b.theirs(map[string]string{"a": "9\n", "bin": "9\x00"})
	b.write(b.dir, map[string]string{"a": "2\n", "bin": "2\x00"})
	var e *lab.Error
	if _, err := b.pull(); !errors.As(err, &e) || e.Code != "conflict" || e.Message != "2 files could not be merged" ||
		!slices.Equal(e.Details, []string{"a:1", "bin: theirs is in bin.forge"}) || !strings.HasPrefix(e.Cure, "edit them, remove *.forge, then ") {
		t.Fatalf("%+v", err)
	}
	return b, notes
}

// A rejected push lists exactly the remaining conflicts.
func TestRemainingConflicts(t *testing.T) {
	b, _ := conflicted(t)
	const aside, edit = "edit them, remove *.forge, then ", "edit them, then "
	for _, step := range []struct {
		do      map[string]string
		message string
		details []string
		cure    string
	}{
		{nil, "2 files not merged yet", []string{"a:1", "bin: theirs is in bin.forge"}, aside},
		{map[string]string{"a": "x\n<<<<<<< working tree\n=======\n>>>>>>> forge 1\n>>>>>>> forge 2\n"}, "2 files not merged yet", []string{"a:2", "a:5", "bin: theirs is in bin.forge"}, aside},
		{map[string]string{"a": ""}, "1 file not merged yet", []string{"bin: theirs is in bin.forge"}, aside}, // resolved by removal
		{map[string]string{"a": "0\n>>>>>>> forge 1\n", "bin.forge": ""}, "1 file not merged yet", []string{"a:2"}, edit},
	} {
		b.write(b.dir, step.do)
		var e *lab.Error
		if _, err := b.push(); !errors.As(err, &e) || e.Code != "conflict" || e.Message != step.message || !slices.Equal(e.Details, step.details) || !strings.HasPrefix(e.Cure, step.cure) {
			t.Errorf("%+v, want %s: %q", e, step.message, step.details)
		}
	}
	b.write(b.dir, map[string]string{"a": "resolved\n"})
	if _, err := b.push(); err != nil {
		t.Error(err)
	}
}

// A folder is the same under any name.
func TestConflictsBehindSymlink(t *testing.T) {
	b, _ := conflicted(t)
	link := filepath.Join(t.TempDir(), "link")
	b.must(os.Symlink(b.dir, link))
	b.dir = link
	if _, err := b.push(); !coded(err, "conflict") {
		t.Errorf("%v", err)
	}
	b.dir = t.TempDir() // another estate has none of these conflicts
	b.write(b.dir, map[string]string{"a": "1\n"})
	if _, err := b.push(); coded(err, "conflict") {
		t.Errorf("%v", err)
	}
}

// tornNotes are unreadable.
type tornNotes struct{ *slate }

var errTorn = errors.New("unexpected end of JSON input")

func (tornNotes) LoadPull(any) error { return errTorn }

// If conflicts are unknown, nothing is pushed or pulled.
func TestUnreadableNotes(t *testing.T) {
	b, notes := conflicted(t)
	held, _ := b.held()
	before := onDisk(t, b.dir)
	b.remote.Notes = tornNotes{notes}
	if _, err := b.push(); !errors.Is(err, errTorn) {
		t.Errorf("push: %v", err)
	}
	if _, err := b.pull(); !errors.Is(err, errTorn) {
		t.Errorf("pull: %v", err)
	}
	if now, _ := b.held(); now["a"] != held["a"] || onDisk(t, b.dir)["a"] != before["a"] {
		t.Errorf("the forge has %q, on disk is %q", now["a"], onDisk(t, b.dir)["a"])
	}
}

// Notes that cannot be deleted would block pushes for no reason, so that is reported.
func TestUndeletableNotes(t *testing.T) {
	drop := func(v any) error {
		if v == nil {
			return errKilled
		}
		return nil
	}
	for name, do := range map[string]func(b *bench) error{
		"nothing to pull": func(b *bench) error { _, err := b.pull(); return err },
		"pulled": func(b *bench) error {
			b.theirs(map[string]string{"a": "9\n"})
			_, err := b.pull()
			return err
		},
	} {
		b, notes := newPullBench(t)
		b.write(b.dir, map[string]string{"a": "1\n"})
		_, err := b.push()
		b.must(err)
		notes.kill = drop
		if err := do(b); !errors.Is(err, errKilled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b, notes := conflicted(t)
	b.write(b.dir, map[string]string{"a": "resolved\n", "bin.forge": ""})
	notes.kill = drop
	if _, err := b.push(); !errors.Is(err, errKilled) {
		t.Errorf("push: %v", err)
	}
}

// Git's own conflicts are not pushed, whether the estate is a repository or within one.
func TestPushDuringMerge(t *testing.T) {
	for _, in := range []string{"", "estate"} {
		b, _ := newPullBench(t)
		top := b.own(in)
		_, err := b.push()
		b.must(err)
		commit := func(text string) {
			t.Helper()
			b.write(b.dir, map[string]string{"six": text})
			b.git(top, "commit", "--quiet", "--all", "--message=x")
		}
		b.git(top, "switch", "--quiet", "--create", "other")
		commit("theirs\n" + six)
		b.git(top, "switch", "--quiet", "work")
		commit("ours\n" + six)
		merge := exec.CommandContext(t.Context(), "git", "-C", top, "merge", "other")
		if out, err := merge.CombinedOutput(); err == nil {
			t.Fatalf("no conflict: %s", out)
		}
		_, err = b.push()
		var e *lab.Error
		if !errors.As(err, &e) || e.Code != "conflict" || !slices.Equal(e.Details, []string{"six:1"}) || e.Cure != "edit them, then lab up" {
			t.Errorf("in %q: %v", in, err)
		}
		b.write(b.dir, map[string]string{"six": "both\n" + six}) // the cure
		if _, err := b.push(); err != nil {
			t.Errorf("in %q: %v", in, err)
		}
	}
}
