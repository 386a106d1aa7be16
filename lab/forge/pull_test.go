package forge

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
)

// slate is an in-memory Notes, stored as JSON. It can simulate a killed program.
type slate struct {
	data []byte
	kill func(v any) error // called before each save
}

func (s *slate) LoadPull(into any) error {
	if s.data == nil {
		return nil
	}
	return json.Unmarshal(s.data, into)
}

func (s *slate) SavePull(v any) error {
	if s.kill != nil {
		if err := s.kill(v); err != nil {
			return err
		}
	}
	if v == nil {
		s.data = nil
		return nil
	}
	var err error
	s.data, err = json.Marshal(v)
	return err
}

func newPullBench(t *testing.T) (*bench, *slate) {
	t.Helper()
	b := newBench(t)
	s := &slate{}
	b.remote.Notes = s
	return b, s
}

func (b *bench) pull() (PullResult, error) {
	b.t.Helper()
	return b.remote.Pull(b.t.Context(), b.tree(), false)
}

// did abbreviates a result: "a took", "b conflict 1,5", "c conflict c.forge".
func did(res PullResult) []string {
	var list []string
	for _, f := range res.Files {
		text := f.Path + " " + f.Did
		if f.Aside != "" {
			text += " " + f.Aside
		}
		for _, l := range f.Lines {
			text += " :" + string(rune('0'+l))
		}
		list = append(list, text)
	}
	return list
}

const six = "1\n2\n3\n4\n5\n6\n"

func TestPull(t *testing.T) {
	for name, test := range map[string]struct {
		base, others, ours map[string]string
		ignored            map[string]string // on disk, not in the tree
		did                []string
		want               map[string]string // differences to base with ours; an empty text for no file
		conflict           bool
	}{
		"nothing":            {},
		"they changed":       {others: map[string]string{"a": "9\n"}, did: []string{"a took"}, want: map[string]string{"a": "9\n"}},
		"they added":         {others: map[string]string{"x/y/new": "9\n"}, did: []string{"x/y/new took"}, want: map[string]string{"x/y/new": "9\n"}},
		"they removed":       {others: map[string]string{"d/e": ""}, did: []string{"d/e took"}, want: map[string]string{"d/e": ""}},
		"both alike":         {others: map[string]string{"a": "9\n"}, ours: map[string]string{"a": "9\n"}},
		"apart in a file":    {others: map[string]string{"six": "1\n2\n3\n4\n5\nx\n"}, ours: map[string]string{"six": "y\n2\n3\n4\n5\n6\n"}, did: []string{"six merged"}, want: map[string]string{"six": "y\n2\n3\n4\n5\nx\n"}},
		"we alone":           {others: map[string]string{"a": "9\n"}, ours: map[string]string{"b": "2\n"}, did: []string{"a took"}, want: map[string]string{"a": "9\n"}},
		"they removed ours":  {others: map[string]string{"a": ""}, ours: map[string]string{"a": "2\n"}, did: []string{"a kept"}},
		"we removed theirs":  {others: map[string]string{"a": "9\n"}, ours: map[string]string{"a": ""}, did: []string{"a took"}, want: map[string]string{"a": "9\n"}},
		"a folder to a file": {others: map[string]string{"d/e": "", "d": "9\n"}, did: []string{"d took", "d/e took"}, want: map[string]string{"d/e": "", "d": "9\n"}},
		"a file to a folder": {others: map[string]string{"a": "", "a/b": "9\n"}, did: []string{"a took", "a/b took"}, want: map[string]string{"a": "", "a/b": "9\n"}},
		"the same line": {
			others: map[string]string{"a": "9\n", "b": "9\n"}, ours: map[string]string{"a": "2\n"}, did: []string{"a conflict :1", "b took"},
			want: map[string]string{"a": "<<<<<<< working tree\n2\n=======\n9\n>>>>>>> forge HEAD\n", "b": "9\n"}, conflict: true,
		},
		"both added": {
			others: map[string]string{"new": "9\n"}, ours: map[string]string{"new": "2\n"}, did: []string{"new conflict :1"},
			want: map[string]string{"new": "<<<<<<< working tree\n2\n=======\n9\n>>>>>>> forge HEAD\n"}, conflict: true,
		},
		"not text": {
			others: map[string]string{"bin": "9\x00"}, ours: map[string]string{"bin": "2\x00"}, did: []string{"bin conflict bin.forge"},
			want: map[string]string{"bin.forge": "9\x00"}, conflict: true,
		},
		"an ignored file in its place": {
			others: map[string]string{"d/new.log": "9\n"}, ignored: map[string]string{"d/new.log": "mine\n"}, did: []string{"d/new.log conflict d/new.log.forge"},
			want: map[string]string{"d/new.log.forge": "9\n"}, conflict: true,
		},
		"a name that is ignored": {
			others: map[string]string{"new.log": "9\n"}, did: []string{"new.log conflict new.log.forge"}, want: map[string]string{"new.log.forge": "9\n"}, conflict: true,
		},
		"a folder that is ignored": {
			others: map[string]string{"out/x": "9\n"}, did: []string{"out/x conflict out/x.forge"}, want: map[string]string{"out/x.forge": "9\n"}, conflict: true,
		},
		"a folder in its place": {
			others: map[string]string{"new": "9\n"}, ours: map[string]string{"new/x": "2\n"}, did: []string{"new conflict new.forge"},
			want: map[string]string{"new.forge": "9\n"}, conflict: true,
		},
		"a file above it": {
			others: map[string]string{"new/x": "9\n"}, ours: map[string]string{"new": "2\n"}, did: []string{"new/x conflict new.forge/x"},
			want: map[string]string{"new.forge/x": "9\n"}, conflict: true,
		},
		"a nested repository in its place": {
			others: map[string]string{"nested/x": "9\n"}, ignored: map[string]string{"nested/.git/HEAD": "x\n"}, did: []string{"nested/x conflict nested.forge/x"},
			want: map[string]string{"nested.forge/x": "9\n"}, conflict: true,
		},
		"FILE.forge is taken": {
			others: map[string]string{"bin": "9\x00"}, ours: map[string]string{"bin": "2\x00", "bin.forge": "mine\n"}, did: []string{"bin conflict bin.forge-2"},
			want: map[string]string{"bin.forge-2": "9\x00"}, conflict: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, notes := newPullBench(t)
			b.write(b.dir, map[string]string{"a": "1\n", "b": "1\n", "d/e": "1\n", "six": six, "bin": "1\x00", ".gitignore": "*.log\nout/\n"})
			_, err := b.push()
			b.must(err)
			head := b.git(b.remote.URL, "rev-parse", "main")
			if test.others != nil {
				head = b.theirs(test.others)
			}
			b.write(b.dir, test.ours)
			b.write(b.dir, test.ignored)
			before := onDisk(t, b.dir)
			dry, err := b.remote.Pull(t.Context(), b.tree(), true)
			b.must(err)
			if !maps.Equal(onDisk(t, b.dir), before) || notes.data != nil {
				t.Error("dry run wrote files")
			}
			got, err := b.pull()
			if coded(err, "conflict") != test.conflict || err != nil && !test.conflict {
				t.Fatalf("error %v", err)
			}
			if !slices.Equal(did(got), test.did) || !slices.Equal(did(dry), test.did) {
				t.Errorf("did %q, dry %q, want %q", did(got), did(dry), test.did)
			}
			want := before
			for file, text := range test.want {
				want[file] = strings.ReplaceAll(text, "HEAD", head[:7])
				if text == "" {
					delete(want, file)
				}
			}
			if after := onDisk(t, b.dir); !maps.Equal(after, want) {
				t.Errorf("on disk are %q, want %q", after, want)
			}
			if last := b.git(b.remote.URL, "rev-parse", lastRef); last != head || got.Commit != head {
				t.Errorf("last is %s, result %+v, want %s", last, got, head)
			}
			if test.conflict {
				b.settles(got, notes)
				return
			}
			if notes.data != nil {
				t.Errorf("left is %s", notes.data)
			}
			again, err := b.pull()
			b.must(err)
			if len(again.Files) > 0 || len(again.Commits) > 0 {
				t.Errorf("second pull %+v", again)
			}
			_, err = b.push()
			b.must(err)
		})
	}
}

// theirs commits to the forge with git and returns the commit; an empty text deletes a file.
func (b *bench) theirs(texts map[string]string) string {
	b.t.Helper()
	dir := b.t.TempDir()
	b.git(dir, "clone", "--quiet", b.remote.URL, "clone")
	dir = filepath.Join(dir, "clone")
	for _, removal := range []bool{true, false} {
		for file, text := range texts {
			if (text == "") == removal {
				b.write(dir, map[string]string{file: text})
			}
			if removal && text == "" {
				_ = os.Remove(filepath.Dir(filepath.Join(dir, file))) // if empty, as git does
			}
		}
	}
	b.git(dir, "add", "--all", "--force")
	b.git(dir, "-c", "user.name=ann", "-c", "user.email=ann@example.org", "commit", "--quiet", "-m", "theirs")
	b.git(dir, "push", "--quiet")
	return b.git(dir, "rev-parse", "HEAD")
}

// settles checks that a conflict blocks pushes and pulls until it is resolved.
func (b *bench) settles(res PullResult, notes *slate) {
	b.t.Helper()
	for _, do := range []func() error{func() error { _, err := b.push(); return err }, func() error { _, err := b.pull(); return err }} {
		var e *lab.Error
		if err := do(); !errors.As(err, &e) || e.Code != "conflict" || e.Exit != lab.ExitFailed || !strings.Contains(e.Cure, "lab up") || len(e.Details) == 0 {
			b.t.Errorf("with conflicts: %#v", err)
		}
	}
	for _, f := range res.Files {
		if f.Aside != "" {
			b.must(os.Remove(filepath.Join(b.dir, f.Aside)))
		}
		if len(f.Lines) > 0 {
			b.write(b.dir, map[string]string{f.Path: "resolved\n"})
		}
	}
	if _, err := b.push(); err != nil {
		b.t.Errorf("push after resolving: %v", err)
	}
	if notes.data != nil {
		b.t.Errorf("left is %s", notes.data)
	}
	if _, err := b.pull(); err != nil {
		b.t.Errorf("pull after resolving: %v", err)
	}
}

// Modes and symlinks are pulled; permissions unknown to Git are kept.
func TestPullModes(t *testing.T) {
	b, _ := newPullBench(t)
	b.write(b.dir, map[string]string{"run.sh": "1\n", "to": "1\n", "link": "1\n", "secret": "1\n", "text": six})
	b.must(os.Chmod(filepath.Join(b.dir, "secret"), 0o600))
	_, err := b.push()
	b.must(err)
	dir := filepath.Join(b.t.TempDir(), "clone")
	b.git(b.dir, "clone", "--quiet", b.remote.URL, dir)
	b.must(os.Chmod(filepath.Join(dir, "run.sh"), 0o755))
	b.must(os.Chmod(filepath.Join(dir, "text"), 0o755))
	b.must(os.Remove(filepath.Join(dir, "link")))
	b.must(os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	b.write(dir, map[string]string{"secret": "9\n"})
	b.git(dir, "-c", "user.name=ann", "-c", "user.email=ann@example.org", "commit", "--quiet", "--all", "-m", "theirs")
	b.git(dir, "push", "--quiet")
	b.write(b.dir, map[string]string{"text": "0\n" + six})
	got, err := b.pull()
	b.must(err)
	if want := []string{"link took", "run.sh took", "secret took", "text merged"}; !slices.Equal(did(got), want) {
		t.Errorf("did %q, want %q", did(got), want)
	}
	for name, want := range map[string]os.FileMode{"run.sh": 0o755, "secret": 0o600, "text": 0o755} {
		if info, err := os.Stat(filepath.Join(b.dir, name)); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
	if target, err := os.Readlink(filepath.Join(b.dir, "link")); err != nil || target != "/etc/passwd" {
		t.Errorf("link to %q, %v", target, err)
	}
}

// Nothing is written outside the estate, regardless of files and symlinks.
func TestPullStaysInside(t *testing.T) {
	b, _ := newPullBench(t)
	outside := t.TempDir()
	b.write(b.dir, map[string]string{"a": "1\n"})
	_, err := b.push()
	b.must(err)
	b.theirs(map[string]string{"dir/x": "9\n"})
	b.must(os.Symlink(outside, filepath.Join(b.dir, "dir")))
	got, err := b.pull()
	if want := []string{"dir/x conflict dir.forge/x"}; !coded(err, "conflict") || !slices.Equal(did(got), want) {
		t.Errorf("did %q, %v, want %q", did(got), err, want)
	}
	if left := onDisk(t, outside); len(left) > 0 {
		t.Errorf("written outside: %q", left)
	}
	for _, name := range []string{"../x", "/x", "a/../../x", ".git/config", "a/.GIT/hooks/x", "a//b", "", "."} {
		if err := local(name); !coded(err, "unsafe_path") {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"a", "a/b.git/c", ".gitignore", "..a/b"} {
		if err := local(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestPullIntoEmbeddedEstate(t *testing.T) {
	b, _ := newPullBench(t)
	tree := b.tree()
	tree.Dir = ""
	_, err := b.remote.Pull(t.Context(), tree, false)
	var e *lab.Error
	if !errors.As(err, &e) || !strings.Contains(e.Cure, "lab init DIR") {
		t.Errorf("error %v", err)
	}
}

// planned returns a planned pull, and what ends it.
func (b *bench) planned() (*pull, func()) {
	b.t.Helper()
	ours, err := b.tree().read()
	b.must(err)
	d, err := b.remote.open(b.t.Context(), b.tree(), true)
	b.must(err)
	b.must(d.fetch(b.t.Context(), 0))
	p, err := newPull(b.t.Context(), d, b.tree(), ours, nil)
	b.must(err)
	return p, func() { b.must(d.Close()) }
}

var errKilled = errors.New("killed")

// A killed pull can be resumed at any point with the same result; until then, pushes are rejected.
func TestPullKilled(t *testing.T) {
	prepare := func(t *testing.T) (*bench, *slate) {
		b, notes := newPullBench(t)
		b.write(b.dir, map[string]string{"a": "1\n", "b": "1\n", "c": "1\n", "six": six, "bin": "1\x00", "rep": "x\nx\nx\nx\n"})
		_, err := b.push()
		b.must(err)
		b.theirs(map[string]string{"a": "9\n", "b": "9\n", "c": "", "six": "1\n2\n3\n4\n5\nx\n", "bin": "9\x00", "d/new": "9\n", "rep": "x\nx\nx\nx\nx\n"})
		b.write(b.dir, map[string]string{"b": "2\n", "six": "y\n2\n3\n4\n5\n6\n", "bin": "2\x00", "rep": "y\nx\nx\nx\nx\n"})
		return b, notes
	}
	whole, _ := prepare(t)
	wantResult, err := whole.pull()
	if !coded(err, "conflict") {
		t.Fatal(err)
	}
	want := onDisk(t, whole.dir)
	label := func(text string, res PullResult) string { return strings.ReplaceAll(text, res.Commit[:7], "") }
	for written := range len(wantResult.Files) + 1 {
		b, notes := prepare(t)
		notes.kill = func(v any) error { // as if killed after the journal and some files, one of them half-written
			data, err := json.Marshal(v)
			notes.data = data
			return errors.Join(err, errKilled)
		}
		if _, err := b.pull(); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		notes.kill = nil
		var j journal
		b.must(notes.LoadPull(&j))
		p, done := b.planned()
		b.must(p.write(p.Changes[:written]))
		done()
		if written < len(j.Changes) {
			b.write(b.dir, map[string]string{temporary(j.Changes[written].Path): "half"})
		}
		if _, err := b.push(); !coded(err, "conflict") {
			t.Errorf("%d written: pushed meanwhile: %v", written, err)
		}
		got, err := b.pull()
		if !coded(err, "conflict") || !slices.Equal(did(got), did(wantResult)) || len(got.Commits) != 1 {
			t.Errorf("%d written: did %q with %d commits, %v, want %q", written, did(got), len(got.Commits), err, did(wantResult))
		}
		after := onDisk(t, b.dir)
		for file := range want {
			if label(after[file], got) != label(want[file], wantResult) {
				t.Errorf("%d written: %s is %q, want %q", written, file, after[file], want[file])
			}
		}
		if len(after) != len(want) {
			t.Errorf("%d written: files %q", written, slices.Sorted(maps.Keys(after)))
		}
	}
}
