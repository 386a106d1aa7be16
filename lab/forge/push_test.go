package forge

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"homelab/lab"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

const main = plumbing.ReferenceName(heads + Branch)

// bench has a bare repository in place of the forge, a working tree, and another user.
type bench struct {
	t      *testing.T
	remote Remote
	dir    string
	clock  time.Time
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	bare := filepath.Join(t.TempDir(), "estate.git")
	repo, err := git.PlainInit(bare, true)
	b.must(err)
	b.must(repo.Storer.SetReference(plumbing.NewSymbolicReference(plumbing.HEAD, main)))
	cfg, err := repo.Config()
	b.must(err)
	cfg.Raw.Section("receive").SetOption("fsckObjects", "true") // have git itself check the objects
	b.must(repo.SetConfig(cfg))
	b.remote = Remote{URL: bare, Commands: Commands{Pull: "pull"}, Now: func() time.Time { b.clock = b.clock.Add(time.Minute); return b.clock }}
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// write writes files into a folder; an empty text deletes one.
func (b *bench) write(dir string, texts map[string]string) {
	b.t.Helper()
	for name, text := range texts {
		file := filepath.Join(dir, name)
		if text == "" {
			b.must(os.Remove(file))
			continue
		}
		b.must(os.MkdirAll(filepath.Dir(file), 0o755))
		b.must(os.WriteFile(file, []byte(text), 0o644))
	}
}

func (b *bench) tree() Tree { return Tree{FS: os.DirFS(b.dir), Dir: b.dir} }

func (b *bench) push() (PushResult, error) {
	b.t.Helper()
	return b.remote.Push(b.t.Context(), b.tree(), "estate")
}

// other commits to the forge as another user.
func (b *bench) other(message string, texts map[string]string) plumbing.Hash {
	b.t.Helper()
	dir := b.t.TempDir()
	repo, err := git.PlainClone(dir, false, &git.CloneOptions{URL: b.remote.URL, ReferenceName: main})
	b.must(err)
	b.write(dir, texts)
	hash := commitAll(b, repo, message)
	b.must(repo.Push(&git.PushOptions{}))
	return hash
}

func commitAll(b *bench, repo *git.Repository, message string) plumbing.Hash {
	b.t.Helper()
	w, err := repo.Worktree()
	b.must(err)
	b.must(w.AddWithOptions(&git.AddOptions{All: true}))
	b.clock = b.clock.Add(time.Minute)
	hash, err := w.Commit(message, &git.CommitOptions{Author: &object.Signature{Name: "ann", Email: "ann@example.org", When: b.clock}})
	b.must(err)
	return hash
}

// held returns the files of the forge's branch and its commits' subjects, newest first.
func (b *bench) held() (map[string]string, []string) {
	b.t.Helper()
	files, err := b.remote.Files(b.t.Context())
	b.must(err)
	got := map[string]string{}
	if files == nil {
		return got, nil
	}
	b.must(fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		got[name] = string(text)
		return err
	}))
	var subjects []string
	for line := range strings.Lines(b.git(b.remote.URL, "log", "--format=%s", Branch)) {
		subjects = append(subjects, strings.TrimSpace(line))
	}
	return got, subjects
}

func TestPush(t *testing.T) {
	for name, test := range map[string]struct {
		others  map[string]string // committed by others after the first push
		ours    map[string]string // changed in the working tree meanwhile
		pushed  bool
		changed []string
		lost    []string // files that a rejection names
	}{
		"nothing changed":             {},
		"we changed":                  {ours: map[string]string{"a": "2\n"}, pushed: true, changed: []string{"a"}},
		"we added and removed":        {ours: map[string]string{"dir/c": "c\n", "b": ""}, pushed: true, changed: []string{"b", "dir/c"}},
		"they changed, we did not":    {others: map[string]string{"a": "9\n"}, lost: []string{"a"}},
		"they added, we changed":      {others: map[string]string{"new": "9\n"}, ours: map[string]string{"b": "2\n"}, lost: []string{"new"}},
		"they removed, we changed it": {others: map[string]string{"a": ""}, ours: map[string]string{"a": "2\n"}, lost: []string{"a"}},
		"they removed, so did we":     {others: map[string]string{"a": ""}, ours: map[string]string{"a": "", "b": "2\n"}, pushed: true, changed: []string{"b"}},
		"both changed alike":          {others: map[string]string{"a": "9\n"}, ours: map[string]string{"a": "9\n"}},
		"we have theirs and more":     {others: map[string]string{"a": "9\n"}, ours: map[string]string{"a": "9\n", "b": "2\n"}, pushed: true, changed: []string{"b"}},
		"both changed the same line":  {others: map[string]string{"a": "9\n"}, ours: map[string]string{"a": "2\n"}, lost: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write(b.dir, map[string]string{"a": "1\n", "b": "1\n"})
			first, err := b.push()
			b.must(err)
			if !first.Pushed || !slices.Equal(first.Changed, []string{"a", "b"}) {
				t.Fatalf("first push: %+v", first)
			}
			if test.others != nil {
				b.other("theirs", test.others)
			}
			b.write(b.dir, test.ours)
			before, _ := b.held()
			got, err := b.push()
			if test.lost != nil {
				var e *lab.Error
				if !errors.As(err, &e) || e.Code != "diverged" || e.Exit != lab.ExitFailed || e.Cure != "pull" {
					t.Fatalf("error %v, want a rejection", err)
				}
				if text := strings.Join(e.Details, "\n"); !strings.Contains(text, "theirs (ann)") || !strings.Contains(text, "  "+test.lost[0]) {
					t.Errorf("details %q, want commit and %q", text, test.lost)
				}
				if after, _ := b.held(); !maps.Equal(after, before) {
					t.Errorf("a rejected push changed the forge: %v", after)
				}
				return
			}
			b.must(err)
			if got.Pushed != test.pushed || !slices.Equal(got.Changed, test.changed) {
				t.Errorf("got %+v, want pushed %t and changed %q", got, test.pushed, test.changed)
			}
			after, subjects := b.held()
			if want := onDisk(t, b.dir); !maps.Equal(after, want) {
				t.Errorf("files in forge %v, want %v", after, want)
			}
			if test.others != nil && !slices.Contains(subjects, "theirs") {
				t.Errorf("commits %q, want theirs kept", subjects)
			}
			again, err := b.push()
			b.must(err)
			if again.Pushed || again.Commit != got.Commit {
				t.Errorf("second push: %+v after %+v", again, got)
			}
		})
	}
}

func onDisk(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		rel, _ := filepath.Rel(dir, file)
		got[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// After a pull, the same lines may be changed.
func TestPushAfterGitPull(t *testing.T) {
	b := newBench(t)
	b.write(b.dir, map[string]string{"a": "1\n", ".gitignore": "*.log\n"})
	_, err := b.push()
	b.must(err)
	b.other("theirs", map[string]string{"a": "9\n"})
	b.must(os.RemoveAll(b.dir))
	_, err = git.PlainClone(b.dir, false, &git.CloneOptions{URL: b.remote.URL, ReferenceName: main})
	b.must(err)
	b.write(b.dir, map[string]string{"a": "10\n"})
	got, err := b.push()
	b.must(err)
	if after, subjects := b.held(); after["a"] != "10\n" || !got.Pushed || !slices.Equal(subjects, []string{"estate", "theirs", "estate"}) {
		t.Errorf("files in forge %v, commits %q", after, subjects)
	}
}

// If the branch was rewritten, its new content counts.
func TestPushAfterForcePush(t *testing.T) {
	b := newBench(t)
	b.write(b.dir, map[string]string{"a": "1\n"})
	_, err := b.push()
	b.must(err)
	dir := t.TempDir()
	repo, err := git.PlainInitWithOptions(dir, &git.PlainInitOptions{InitOptions: git.InitOptions{DefaultBranch: main}})
	b.must(err)
	b.write(dir, map[string]string{"a": "1\n", "z": "z\n"})
	commitAll(b, repo, "rewritten")
	_, err = repo.CreateRemote(&config.RemoteConfig{Name: "origin", URLs: []string{b.remote.URL}})
	b.must(err)
	b.must(repo.Push(&git.PushOptions{Force: true, RefSpecs: []config.RefSpec{"+refs/heads/main:refs/heads/main"}}))
	if _, err := b.push(); err == nil {
		t.Fatal("a push removed file z of a rewritten branch")
	}
	b.write(b.dir, map[string]string{"z": "z\n", "b": "b\n"})
	got, err := b.push()
	b.must(err)
	if _, subjects := b.held(); !got.Pushed || !slices.Equal(subjects, []string{"estate", "rewritten"}) {
		t.Errorf("commits %q after %+v", subjects, got)
	}
}

// A repository with commits from before the first push is not overwritten.
func TestFirstPushOntoForeignCommits(t *testing.T) {
	b := newBench(t)
	b.write(b.dir, map[string]string{"a": "1\n"})
	_, err := b.push()
	b.must(err)
	bare, err := git.PlainOpen(b.remote.URL)
	b.must(err)
	b.must(bare.Storer.RemoveReference(plumbing.ReferenceName(lastRef)))
	b.write(b.dir, map[string]string{"a": "2\n"})
	if _, err := b.push(); err == nil {
		t.Error("overwrote unknown commits")
	}
}

func TestDiff(t *testing.T) {
	b := newBench(t)
	b.write(b.dir, map[string]string{"a": "1\n", "b": "1\n"})
	for _, want := range [][]string{{"a", "b"}, nil, {"a"}} {
		got, err := b.remote.Diff(t.Context(), b.tree())
		b.must(err)
		if !slices.Equal(got, want) {
			t.Errorf("differs in %q, want %q", got, want)
		}
		if want == nil {
			b.write(b.dir, map[string]string{"a": "2\n"})
			continue
		}
		_, err = b.push()
		b.must(err)
	}
}

func TestTreeModes(t *testing.T) {
	b := newBench(t)
	outer := b.dir
	_, err := git.PlainInit(outer, false)
	b.must(err)
	b.dir = filepath.Join(outer, "estate")
	b.write(outer, map[string]string{
		".gitignore": "*.log\n/estate/top\n", ".git/info/exclude": "secret*\n", "outside": "no\n",
		"estate/.gitignore": "# a comment\nbuild/\n!keep.log\n", "estate/a.log": "no\n", "estate/keep.log": "yes\n", "estate/top": "no\n", "estate/x/top": "yes\n",
		"estate/secret.txt": "no\n", "estate/build/out": "no\n", "estate/x/build": "yes, a file\n", "estate/x/.gitignore": "*\n!.gitignore\n!top\n!build\n",
		"estate/x/other": "no\n", "estate/nested/file": "no\n", "estate/run.sh": "#!/bin/sh\n", "estate/foo.d/1": "yes\n", "estate/foo": "yes\n",
	})
	_, err = git.PlainInit(filepath.Join(b.dir, "nested"), false)
	b.must(err)
	b.must(os.Chmod(filepath.Join(b.dir, "run.sh"), 0o755))
	b.must(os.Symlink("run.sh", filepath.Join(b.dir, "link")))
	b.must(os.Mkdir(filepath.Join(b.dir, "empty"), 0o755))
	got, err := b.tree().read()
	b.must(err)
	want := []string{".gitignore", "foo", "foo.d/1", "keep.log", "link", "run.sh", "x/.gitignore", "x/build", "x/top"}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
		t.Errorf("committed are\n%q, want\n%q", names, want)
	}
	for name, mode := range map[string]string{"link": modeLink, "run.sh": modeExecutable, "foo": modeFile} {
		if got[name].Mode != mode {
			t.Errorf("%s has mode %s, want %s", name, got[name].Mode, mode)
		}
	}
}

func coded(err error, code string) bool {
	var e *lab.Error
	return errors.As(err, &e) && e.Code == code
}
