package forge

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
)

// A pull explains unobvious results.
func TestPullNotes(t *testing.T) {
	b, _ := newPullBench(t)
	b.write(b.dir, map[string]string{"a": "1\n", "b": "1\n", "c": "1\n", "d": "1\n", "bin": "1\x00"})
	_, err := b.push()
	b.must(err)
	b.theirs(map[string]string{"a": "", "b": "", "c": "9\n", "d": "9\n", "bin": "9\x00", "new": "9\n"})
	b.write(b.dir, map[string]string{"b": "2\n", "c": "", "bin": "2\x00"})
	got, err := b.pull()
	if !coded(err, "conflict") {
		t.Fatal(err)
	}
	var notes []string
	for _, f := range got.Files {
		notes = append(notes, f.Path+" "+f.Did+": "+f.Note)
	}
	want := []string{
		"a took: removed", "b kept: changed here, removed in the forge", "bin conflict: not text, changed on both sides", "c took: removed here, changed in the forge", "d took: ", "new took: ",
	}
	if !slices.Equal(notes, want) {
		t.Errorf("%q\nwant %q", notes, want)
	}
}

// failing is a folder with one unreadable name.
type failing struct {
	fs.FS
	name string
}

var errInput = errors.New("input/output error")

func (f failing) refuse(name string) error {
	if name == f.name {
		return &fs.PathError{Op: "lstat", Path: name, Err: errInput}
	}
	return nil
}

func (f failing) Open(name string) (fs.File, error) {
	if err := f.refuse(name); err != nil {
		return nil, err
	}
	return f.FS.Open(name)
}

func (f failing) Lstat(name string) (fs.FileInfo, error) {
	if err := f.refuse(name); err != nil {
		return nil, err
	}
	return fs.Lstat(f.FS, name)
}

func (f failing) ReadLink(name string) (string, error) { return fs.ReadLink(f.FS, name) }

func (f failing) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.refuse(name); err != nil {
		return nil, err
	}
	return fs.ReadDir(f.FS, name)
}

// An unreadable path does not count as free: it might hide a file.
func TestPullUnreadablePath(t *testing.T) {
	theirs := entry{blobHash([]byte("9\n")), modeFile}
	for fails, p := range map[string]string{"new": "new", "dir": "dir/new", "dir/sub": "dir", "new.forge": "new"} {
		dir := t.TempDir()
		for _, d := range []string{"dir/sub"} {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		in := incoming{tree: Tree{FS: failing{os.DirFS(dir), fails}}, theirs: files{p: theirs}, removed: map[string]bool{}}
		c := change{Path: p, Theirs: theirs}
		var err error
		if fails == "new.forge" {
			_, err = in.aside(c, p, "it is there")
		} else {
			_, err = in.change(t.Context(), p)
		}
		if !errors.Is(err, errInput) {
			t.Errorf("%s unreadable, %s: %v", fails, p, err)
		}
	}
}

// A pull reports the commits that changed the pulled files and are new to the working tree.
func TestPullReportsCommits(t *testing.T) {
	b, _ := newPullBench(t)
	b.own("")
	b.theirs(map[string]string{"b": "8\n"})
	b.git(b.dir, "pull", "--quiet", b.remote.URL, "main")
	b.other("brought", map[string]string{"b": "9\n"})
	got, err := b.pull()
	b.must(err)
	if len(got.Commits) != 1 || got.Commits[0].Message != "brought" || got.Commits[0].Author != "ann" || got.Commits[0].Lab {
		t.Errorf("%+v", got.Commits)
	}
}

// For files in folders and merges, exactly the commits that changed them are reported.
func TestAheadInFoldersAndMerges(t *testing.T) {
	b := newBench(t)
	b.write(b.dir, map[string]string{"a": "1\n", "b": "1\n", "d/e/f": "1\n", "d/e/g": "1\n"})
	_, err := b.push()
	b.must(err)
	b.other("elsewhere", map[string]string{"a": "9\n"})
	b.other("back", map[string]string{"a": "1\n"})
	b.other("deep", map[string]string{"d/e/f": "9\n"})

	dir := filepath.Join(t.TempDir(), "clone")
	b.git(b.dir, "clone", "--quiet", b.remote.URL, dir)
	commit := func(date, message string, files map[string]string) {
		b.write(dir, files)
		t.Setenv("GIT_COMMITTER_DATE", date)
		b.git(dir, "-c", "user.name=ann", "-c", "user.email=ann@example.org", "commit", "--quiet", "--all", "-m", message)
	}
	b.git(dir, "checkout", "--quiet", "-b", "side")
	b.git(dir, "checkout", "--quiet", "main")
	commit("2026-02-01T00:00:00Z", "main's", map[string]string{"a": "main\n"})
	b.git(dir, "checkout", "--quiet", "side")
	commit("2026-02-02T00:00:00Z", "side's", map[string]string{"b": "side\n"})
	b.git(dir, "checkout", "--quiet", "main")
	t.Setenv("GIT_COMMITTER_DATE", "2026-02-03T00:00:00Z")
	b.git(dir, "-c", "user.name=ann", "-c", "user.email=ann@example.org", "merge", "--quiet", "--no-edit", "-m", "merged", "side")
	b.git(dir, "push", "--quiet", "origin", "main")

	ahead, err := b.remote.Ahead(t.Context(), b.tree())
	b.must(err)
	var got []string
	for _, c := range ahead {
		got = append(got, c.Message)
	}
	if want := []string{"side's", "main's", "deep"}; !slices.Equal(got, want) {
		t.Errorf("ahead are %q, want %q", got, want)
	}
}

// A running scenario is reported, an undone one is not.
func TestAheadOfSecondStory(t *testing.T) {
	b := newBench(t)
	b.write(b.dir, map[string]string{"a": "1\n"})
	_, err := b.push()
	b.must(err)
	b.by("a.developer@scenario.invalid", "scale", map[string]string{"a": "5\n"})
	b.other("theirs", map[string]string{"a": "5\n9\n"})
	b.by("lab@scenario.invalid", "put back", map[string]string{"a": "1\n9\n"})
	b.by("a.developer@scenario.invalid", "again", map[string]string{"a": "6\n9\n"})
	ahead, err := b.remote.Ahead(t.Context(), b.tree())
	b.must(err)
	var got []string
	for _, c := range ahead {
		got = append(got, c.Message)
	}
	if want := "again theirs"; strings.Join(got, " ") != want {
		t.Errorf("ahead are %q, want %q", got, want)
	}
}

// A pull that commits leaves nothing in the folder for temporary files.
func TestPullCleansUp(t *testing.T) {
	b, _ := newPullBench(t)
	b.own("")
	b.theirs(map[string]string{"a": "9\n"})
	t.Setenv("TMPDIR", t.TempDir())
	got, err := b.pull()
	b.must(err)
	if left := onDisk(t, os.Getenv("TMPDIR")); got.Committed == "" || len(left) > 0 {
		t.Errorf("committed %q, left %q", got.Committed, left)
	}
}

// Names that are not UTF-8 are not supported everywhere: a push or a pull rejects them.
func TestNonUTF8Names(t *testing.T) {
	const name = "caf\xe9.yaml"
	b, _ := newPullBench(t)
	b.write(b.dir, map[string]string{"a": "1\n"})
	_, err := b.push()
	b.must(err)
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte("x\n"), 0o600); err != nil {
		t.Skip(err) // the file system rejects the name
	}
	var e *lab.Error
	if _, err := b.remote.Push(t.Context(), b.tree(), "up"); !errors.As(err, &e) || e.Code != "unsafe_path" || !strings.Contains(e.Message, `"caf\xe9.yaml"`) || e.Cure == "" {
		t.Errorf("%v", err)
	}
	b.write(b.dir, map[string]string{".gitignore": "caf*\n"}) // the cure
	if _, err := b.remote.Push(t.Context(), b.tree(), "up"); err != nil {
		t.Error(err)
	}
	if err := local(name); !errors.As(err, &e) || e.Code != "unsafe_path" {
		t.Errorf("%v", err)
	}
}
