// Package forgetest provides a contract suite for forges, and a fake backed by a bare repository.
package forgetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"homelab/lab"
	"homelab/lab/forge"
)

// Forge is the interface that the suite tests. Consumers declare smaller ones.
type Forge interface {
	Observe(ctx context.Context) (forge.State, error)
	Start(ctx context.Context, spec forge.Spec, port int, p lab.Progress) error
	Inputs(spec forge.Spec) string
	Account(writes bool) forge.Account
	Push(ctx context.Context, tree forge.Tree, message string) (forge.PushResult, error)
	Pull(ctx context.Context, tree forge.Tree, dry bool) (forge.PullResult, error)
	Diff(ctx context.Context, tree forge.Tree) ([]string, error)
	Estate(ctx context.Context) (fs.FS, error)
	Ahead(ctx context.Context, tree forge.Tree) ([]forge.Commit, error)
	Log(ctx context.Context, n int) ([]forge.Commit, error)
	PublishCharts(ctx context.Context, charts []lab.Chart) ([]string, error)
	MissingCharts(ctx context.Context, charts []lab.Chart) ([]string, error)
	EnsureWebhook(ctx context.Context, url, secret string, also ...string) (bool, error)
	HasWebhook(ctx context.Context, url, secret string, also ...string) (bool, error)
	Mirror(ctx context.Context, m forge.Mirror, url, secret string, also ...string) (forge.PushResult, error)
	Mirrored(ctx context.Context, m forge.Mirror, url, secret string, also ...string) (forge.Mirrored, error)
	Remove(ctx context.Context) error
	Foreign(ctx context.Context, tree forge.Tree, mirrors []forge.Mirror) (forge.Foreign, error)
	Wake(ctx context.Context) (bool, error)
}

var _ Forge = (*forge.Gitea)(nil)

// Subject is a forge under test.
type Subject struct {
	Forge     Forge
	Spec      forge.Spec
	Stop      func(t *testing.T)                                      // stops it, as a reboot does
	Pause     func(t *testing.T)                                      // freezes it, as docker pause does
	Silence   func(t *testing.T) (undo func())                        // keeps it running without answering
	Unprepare func(t *testing.T)                                      // deletes admin and repository, as after an interrupted start
	Other     func(t *testing.T, message string, files ...string)     // commits as another user: name, text, name, text, ...
	Chart     func(t *testing.T, dir, version, text string) lab.Chart // returns a chart archive whose content depends on text
	// Strangers pushes, as ann, a commit "try it" with try.txt to a new branch try of the estate, opens a pull request "Try it" for it, an issue "It breaks", a release
	// "First" and a wiki with a page "Home", and creates a repository ann/notes with content.
	Strangers func(t *testing.T)

	mirror forge.Mirror // of the mirror test
}

func Contract(t *testing.T, s Subject) {
	ctx := t.Context()
	dir := t.TempDir()
	tree := forge.Tree{FS: os.DirFS(dir), Dir: dir}
	write(t, dir, "README.md", "one\n")
	write(t, dir, ".gitignore", "*.log\n")
	write(t, dir, "clusters/dev/cluster.yaml", "dev\n")
	write(t, dir, "debug.log", "no\n")
	write(t, dir, "apps/.gitkeep", "")

	t.Run("nothing yet", func(t *testing.T) {
		if got := observe(t, s.Forge); got != (forge.State{}) {
			t.Errorf("observed %+v", got)
		}
		unserved(t, s.Forge, tree)
		if woken, err := s.Forge.Wake(ctx); woken || err != nil {
			t.Errorf("woken %t, %v", woken, err)
		}
		must(t, s.Forge.Remove(ctx))
	})

	t.Run("start", func(t *testing.T) {
		for range 2 {
			must(t, s.Forge.Start(ctx, s.Spec, 0, nil))
			got := observe(t, s.Forge)
			if !got.Exists || !got.Volume || !got.Running || !got.Answers || !got.Prepared || !got.Guarded || got.Revision != "" || got.Inputs != s.Forge.Inputs(s.Spec) {
				t.Errorf("observed %+v", got)
			}
			if !strings.HasPrefix(got.HostURL, "http://127.0.0.1:") {
				t.Errorf("listens at %q, want only the loopback address", got.HostURL)
			}
		}
	})

	t.Run("push", func(t *testing.T) {
		first, err := s.Forge.Push(ctx, tree, "first")
		must(t, err)
		if want := []string{".gitignore", "README.md", "apps/.gitkeep", "clusters/dev/cluster.yaml"}; !first.Pushed || !slices.Equal(first.Changed, want) {
			t.Errorf("pushed %+v, want %q", first, want)
		}
		if got := observe(t, s.Forge); got.Revision != first.Commit {
			t.Errorf("head %s after a push of %s", got.Revision, first.Commit)
		}
		again, err := s.Forge.Push(ctx, tree, "again")
		must(t, err)
		if again.Pushed || again.Commit != first.Commit {
			t.Errorf("pushed %+v without a change", again)
		}
		write(t, dir, "README.md", "two\n")
		if diff, err := s.Forge.Diff(ctx, tree); err != nil || !slices.Equal(diff, []string{"README.md"}) {
			t.Errorf("differs in %q, %v", diff, err)
		}
		second, err := s.Forge.Push(ctx, tree, "second")
		must(t, err)
		if diff, err := s.Forge.Diff(ctx, tree); err != nil || len(diff) != 0 || !second.Pushed {
			t.Errorf("differs in %q, %v after %+v", diff, err, second)
		}
	})

	t.Run("files", func(t *testing.T) {
		served(t, s.Forge, map[string]string{".gitignore": "*.log\n", "README.md": "two\n", "apps/.gitkeep": "", "clusters/dev/cluster.yaml": "dev\n"})
	})

	t.Run("others", func(t *testing.T) {
		s.Other(t, "theirs", "theirs.txt", "theirs\n")
		before := observe(t, s.Forge).Revision
		write(t, dir, "README.md", "three\n")
		ahead, err := s.Forge.Ahead(ctx, tree)
		if err != nil || len(ahead) != 1 || ahead[0].Message != "theirs" || ahead[0].Hash != before || ahead[0].Author != "ann" || ahead[0].Lab {
			t.Errorf("ahead are %+v, %v; want theirs", ahead, err)
		}
		_, err = s.Forge.Push(ctx, tree, "third")
		var e *lab.Error
		if !errors.As(err, &e) || e.Code != "diverged" || e.Exit != lab.ExitFailed || e.Cure == "" || !strings.Contains(strings.Join(e.Details, "\n"), "theirs.txt") {
			t.Fatalf("error %#v, want a rejection that names theirs.txt", err)
		}
		if got := observe(t, s.Forge).Revision; got != before {
			t.Errorf("a rejected push moved the head from %s to %s", before, got)
		}
		write(t, dir, "theirs.txt", "theirs\n")
		third, err := s.Forge.Push(ctx, tree, "third")
		must(t, err)
		if !slices.Equal(third.Changed, []string{"README.md"}) {
			t.Errorf("pushed %+v", third)
		}
		if ahead, err := s.Forge.Ahead(ctx, tree); err != nil || len(ahead) > 0 {
			t.Errorf("Ahead = %+v, %v, want none", ahead, err)
		}
	})

	t.Run("log", func(t *testing.T) {
		commits, err := s.Forge.Log(ctx, 3)
		must(t, err)
		var got []string
		for _, c := range commits {
			by := "other"
			if c.Lab {
				by = "lab"
			}
			got = append(got, by+" "+c.Message)
			if len(c.Hash) != 40 || c.When.IsZero() || c.Author == "" {
				t.Errorf("commit %+v", c)
			}
		}
		if want := []string{"lab third", "other theirs", "lab second"}; !slices.Equal(got, want) {
			t.Errorf("log %q, want %q", got, want)
		}
		if commits[0].Hash != observe(t, s.Forge).Revision {
			t.Error("the newest commit is not the head")
		}
	})

	t.Run("log of 0 commits", func(t *testing.T) {
		for _, n := range []int{0, -1} {
			if commits, err := s.Forge.Log(ctx, n); err != nil || len(commits) > 0 {
				t.Errorf("the last %d commits are %+v, %v", n, commits, err)
			}
		}
	})

	t.Run("charts", func(t *testing.T) {
		one, two := s.Chart(t, t.TempDir(), "1.0.0", "a"), s.Chart(t, t.TempDir(), "2.0.0", "a")
		other := s.Chart(t, t.TempDir(), "1.0.0", "b")
		for _, step := range []struct{ charts, changed []string }{{[]string{"1a", "2a"}, []string{"1.0.0", "2.0.0"}}, {[]string{"1a", "2a"}, nil}, {[]string{"1b", "2a"}, []string{"1.0.0"}}} {
			var charts []lab.Chart
			for _, c := range step.charts {
				charts = append(charts, map[string]lab.Chart{"1a": one, "2a": two, "1b": other}[c])
			}
			var want []string
			for _, v := range step.changed {
				want = append(want, one.Name+" "+v)
			}
			if missing, err := s.Forge.MissingCharts(ctx, charts); err != nil || !slices.Equal(missing, want) {
				t.Errorf("missing %q, %v; want %q", missing, err, want)
			}
			if changed, err := s.Forge.PublishCharts(ctx, charts); err != nil || !slices.Equal(changed, want) {
				t.Errorf("published %q, %v; want %q", changed, err, want)
			}
		}
	})

	t.Run("webhook", func(t *testing.T) {
		const url = "http://172.18.0.2:30080/api/webhook"
		for _, step := range []struct {
			url, secret string
			also        []string
			changed     bool
		}{
			{url, "s1", nil, true},
			{url, "s1", nil, false},
			{url, "s2", nil, true},
			{url, "s2", nil, false},
			{url + "2", "s2", nil, true},
			{url + "2", "s2", []string{url}, true},
			{url + "2", "s2", []string{url}, false},
			{url, "s2", nil, true},
			{url, "s2", nil, false},
		} {
			if has, err := s.Forge.HasWebhook(ctx, step.url, step.secret, step.also...); err != nil || has == step.changed {
				t.Errorf("%+v: HasWebhook before = %t, %v", step, has, err)
			}
			if changed, err := s.Forge.EnsureWebhook(ctx, step.url, step.secret, step.also...); err != nil || changed != step.changed {
				t.Errorf("%+v: changed %t, %v", step, changed, err)
			}
		}
	})

	clone := t.TempDir()
	t.Run("mirror", func(t *testing.T) { s.mirror = testMirror(t, s, clone) })

	t.Run("restart", func(t *testing.T) {
		before := observe(t, s.Forge)
		s.Stop(t)
		if got := observe(t, s.Forge); !got.Exists || got.Running || got.Answers || got.HostURL != "" {
			t.Errorf("stopped: %+v", got)
		}
		unserved(t, s.Forge, tree)
		must(t, s.Forge.Start(ctx, s.Spec, 0, nil))
		if got := observe(t, s.Forge); got != before {
			t.Errorf("observed %+v, before the restart %+v", got, before)
		}
	})

	t.Run("pause", func(t *testing.T) {
		before := observe(t, s.Forge)
		s.Pause(t)
		if got := observe(t, s.Forge); !got.Exists || !got.Volume || got.Running || got.Answers || got.Prepared || got.HostURL != "" {
			t.Errorf("paused: %+v", got)
		}
		unserved(t, s.Forge, tree)
		must(t, s.Forge.Start(ctx, s.Spec, 0, nil))
		if got := observe(t, s.Forge); got != before {
			t.Errorf("observed %+v, before the pause %+v", got, before)
		}
	})

	t.Run("silence", func(t *testing.T) {
		before := observe(t, s.Forge)
		undo := s.Silence(t)
		got := observe(t, s.Forge)
		unanswered(t, s.Forge, tree)
		undo()
		if !got.Exists || !got.Running || got.Answers || got.Prepared || got.Revision != "" {
			t.Errorf("not answering: %+v", got)
		}
		must(t, s.Forge.Start(ctx, s.Spec, 0, nil))
		if got := observe(t, s.Forge); got != before {
			t.Errorf("observed %+v, before the silence %+v", got, before)
		}
	})

	t.Run("foreign", func(t *testing.T) { testForeign(t, s, tree) })

	rebuilt := s.Spec
	rebuilt.Image.Digest = "sha256:" + strings.Repeat("0", 64) // same archive
	t.Run("other settings", func(t *testing.T) {
		before := observe(t, s.Forge)
		must(t, s.Forge.Start(ctx, rebuilt, 0, nil))
		got := observe(t, s.Forge)
		if got.Inputs == before.Inputs || !got.Guarded || got.Revision != before.Revision || got.HostURL != before.HostURL {
			t.Errorf("observed %+v, before the change %+v: want the same commits at the same address", got, before)
		}
	})

	t.Run("unprepared", func(t *testing.T) {
		s.Unprepare(t)
		if got := observe(t, s.Forge); !got.Exists || !got.Running || !got.Answers || got.Prepared || got.Revision != "" {
			t.Errorf("unprepared: %+v", got)
		}
		unserved(t, s.Forge, tree)
		if got, err := s.Forge.Foreign(ctx, tree, nil); err != nil || !got.Empty() {
			t.Errorf("of others %+v, %v; want nothing, for certain", got, err)
		}
		must(t, s.Forge.Start(ctx, rebuilt, 0, nil))
		if got := observe(t, s.Forge); !got.Prepared || !got.Answers || !got.Guarded {
			t.Errorf("started: %+v", got)
		}
		pushed, err := s.Forge.Push(ctx, tree, "again")
		must(t, err)
		if got := observe(t, s.Forge); got.Revision != pushed.Commit || !pushed.Pushed {
			t.Errorf("observed %+v after %+v", got, pushed)
		}
	})

	t.Run("pull", func(t *testing.T) {
		s.Other(t, "theirs again", "theirs.txt", "theirs again\n", "new/file.txt", "new\n")
		for _, dry := range []bool{true, false} {
			got, err := s.Forge.Pull(ctx, tree, dry)
			must(t, err)
			if len(got.Commits) != 1 || got.Commits[0].Message != "theirs again" || len(got.Files) != 2 || got.Commit != observe(t, s.Forge).Revision {
				t.Errorf("dry %t: pulled %+v", dry, got)
			}
			text, err := os.ReadFile(filepath.Join(dir, "theirs.txt"))
			must(t, err)
			if (string(text) == "theirs again\n") == dry {
				t.Errorf("dry %t: the file is %q", dry, text)
			}
		}
		if got, err := s.Forge.Pull(ctx, tree, false); err != nil || len(got.Files) > 0 {
			t.Errorf("second pull %+v, %v", got, err)
		}
		write(t, dir, "theirs.txt", "ours now\n")
		if got, err := s.Forge.Push(ctx, tree, "after a pull"); err != nil || !slices.Equal(got.Changed, []string{"theirs.txt"}) {
			t.Errorf("pushed %+v, %v", got, err)
		}
	})

	t.Run("remove", func(t *testing.T) {
		for range 2 {
			must(t, s.Forge.Remove(ctx))
			if got := observe(t, s.Forge); got != (forge.State{}) {
				t.Errorf("observed %+v", got)
			}
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func observe(t *testing.T, f Forge) forge.State {
	t.Helper()
	s, err := f.Observe(t.Context())
	must(t, err)
	return s
}

func hasCode(err error, code string) bool {
	var e *lab.Error
	return errors.As(err, &e) && e.Code == code
}

// Digest returns the digest of a file as in lab.Chart.
func Digest(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Commit clones a repository, commits files (name, text, name, text, ...) as another user, and pushes.
func Commit(t *testing.T, url string, auth transport.AuthMethod, message string, files ...string) {
	t.Helper()
	dir := t.TempDir()
	repo, err := git.PlainClone(dir, false, &git.CloneOptions{URL: url, Auth: auth, ReferenceName: plumbing.NewBranchReferenceName(forge.Branch)})
	must(t, err)
	for pair := range slices.Chunk(files, 2) {
		write(t, dir, pair[0], pair[1])
	}
	w, err := repo.Worktree()
	must(t, err)
	must(t, w.AddWithOptions(&git.AddOptions{All: true}))
	_, err = w.Commit(message, &git.CommitOptions{Author: &object.Signature{Name: "ann", Email: "ann@example.org", When: time.Now()}})
	must(t, err)
	must(t, repo.Push(&git.PushOptions{Auth: auth}))
}
