package forge

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab"
)

func codeOf(err error) string {
	var e *lab.Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Code
}

// The working tree's changes go to a branch; main, what counts as pushed, and the clone stay.
func TestPropose(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	b.write(b.dir, map[string]string{"a": "1\n", "b": "1\n"})
	if _, err := b.remote.Propose(ctx, b.tree(), "pr/x", "x"); codeOf(err) != "no_branch" {
		t.Fatalf("to an empty forge: %v", err)
	}
	_, err := b.push()
	b.must(err)
	before := b.git(b.remote.URL, "for-each-ref")
	if _, err := b.remote.Propose(ctx, b.tree(), "pr/x", "x"); codeOf(err) != "no_change" {
		t.Errorf("without a change: %v", err)
	}
	b.write(b.dir, map[string]string{"a": "2\n"})
	for name, code := range map[string]string{"main": "invalid_request", "--force": "invalid_request", "../x": "invalid_request", "refs/lab/last": "invalid_request"} {
		if _, err := b.remote.Propose(ctx, b.tree(), name, "x"); codeOf(err) != code {
			t.Errorf("to branch %s: %v", name, err)
		}
	}
	if now := b.git(b.remote.URL, "for-each-ref"); now != before {
		t.Errorf("refused, but the forge has\n%s\nnot\n%s", now, before)
	}
	first, err := b.remote.Propose(ctx, b.tree(), "pr/x", "two of a")
	b.must(err)
	if !first.Pushed || !slices.Equal(first.Changed, []string{"a"}) {
		t.Errorf("proposed %+v", first)
	}
	if now := b.git(b.remote.URL, "for-each-ref", "refs/heads/main", "refs/lab"); now != strings.TrimSpace(before) {
		t.Errorf("main is %s, was %s", now, before)
	}
	if got := b.git(b.remote.URL, "log", "--format=%s", "main..pr/x"); got != "two of a" {
		t.Errorf("branch has %q", got)
	}
	again, err := b.remote.Propose(ctx, b.tree(), "pr/x", "again")
	b.must(err)
	if again.Pushed || again.Commit != first.Commit {
		t.Errorf("again %+v, first %+v", again, first)
	}
	b.write(b.dir, map[string]string{"b": "2\n"})
	more, err := b.remote.Propose(ctx, b.tree(), "pr/x", "and b")
	b.must(err)
	if !more.Pushed || !slices.Equal(b.parents(more.Commit), []string{first.Commit}) {
		t.Errorf("more %+v with parents %q", more, b.parents(more.Commit))
	}
	// A merge by somebody else: nothing is left to propose, and the pull has nothing to write.
	b.git(b.remote.URL, "update-ref", "refs/heads/main", more.Commit)
	if _, err := b.remote.Propose(ctx, b.tree(), "pr/x", "x"); codeOf(err) != "no_change" {
		t.Errorf("after the merge: %v", err)
	}
	pulled, err := b.remote.Pull(ctx, b.tree(), false)
	b.must(err)
	if len(pulled.Files) > 0 {
		t.Errorf("pulled %+v", pulled)
	}
}

// What others did is neither reverted nor overwritten.
func TestProposeBesideOthers(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	b.write(b.dir, map[string]string{"a": "1\n", "b": "1\n"})
	_, err := b.push()
	b.must(err)
	b.write(b.dir, map[string]string{"a": "2\n"})
	_, err = b.remote.Propose(ctx, b.tree(), "pr/x", "mine")
	b.must(err)
	b.git(b.remote.URL, "branch", "theirs", "pr/x")
	b.other("on main", map[string]string{"c": "1\n"})
	if _, err := b.remote.Propose(ctx, b.tree(), "pr/x", "x"); codeOf(err) != "diverged" {
		t.Errorf("with commits on main: %v", err)
	}
	b.write(b.dir, map[string]string{"c": "1\n", "b": "2\n"})
	next, err := b.remote.Propose(ctx, b.tree(), "pr/x", "with theirs")
	b.must(err)
	if parents := b.parents(next.Commit); len(parents) != 2 {
		t.Errorf("on top of %q, want the branch and main", parents)
	}
	clone := t.TempDir()
	b.git(clone, "clone", "--quiet", "--branch", "pr/x", b.remote.URL, ".")
	b.write(clone, map[string]string{"d": "1\n"})
	b.git(clone, "add", "--all")
	b.git(clone, "-c", "user.name=ann", "-c", "user.email=ann@example.org", "commit", "--quiet", "-m", "fix it")
	b.git(clone, "push", "--quiet")
	b.write(b.dir, map[string]string{"b": "3\n"})
	_, err = b.remote.Propose(ctx, b.tree(), "pr/x", "x")
	var e *lab.Error
	if !errors.As(err, &e) || e.Code != "diverged" || !strings.Contains(strings.Join(e.Details, "\n"), "fix it (ann)") {
		t.Errorf("to a branch with commits of others: %#v", err)
	}
}

// In a clone, its commits are the pull request, and it stays as it is.
func TestProposeFromClone(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	b.write(b.dir, map[string]string{"a": "1\n"})
	b.initRepository(b.dir)
	_, err := b.push()
	b.must(err)
	b.write(b.dir, map[string]string{"a": "2\n"})
	own := b.save(b.dir, "two of a")
	before := b.git(b.dir, "for-each-ref") + b.git(b.dir, "status", "--porcelain")
	res, err := b.remote.Propose(ctx, b.tree(), "pr/x", "x")
	b.must(err)
	if res.Commit != own {
		t.Errorf("proposed %s, checked out is %s", res.Commit, own)
	}
	b.write(b.dir, map[string]string{"a": "3\n"})
	dirty, err := b.remote.Propose(ctx, b.tree(), "pr/x", "three of a")
	b.must(err)
	if !slices.Equal(b.parents(dirty.Commit), []string{own}) {
		t.Errorf("parents %q, want %s", b.parents(dirty.Commit), own)
	}
	b.write(b.dir, map[string]string{"a": "2\n"})
	if now := b.git(b.dir, "for-each-ref") + b.git(b.dir, "status", "--porcelain"); now != before {
		t.Errorf("the clone has\n%s\nnot\n%s", now, before)
	}
}

func TestProposeInMemory(t *testing.T) {
	b := newBench(t)
	b.write(b.dir, map[string]string{"a": "1\n", "b": "1\n"})
	_, err := b.push()
	b.must(err)
	tree := Tree{FS: fstest.MapFS{"a": {Data: []byte("2\n")}, "b": {Data: []byte("1\n")}}}
	res, err := b.remote.Propose(t.Context(), tree, "promote/a", "a")
	b.must(err)
	if !slices.Equal(res.Changed, []string{"a"}) || b.git(b.remote.URL, "show", "promote/a:a") != "2" {
		t.Errorf("proposed %+v", res)
	}
}

// Files are changed on top of main, whatever the working tree has.
func TestProposeFiles(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	b.write(b.dir, map[string]string{"a": "1\n", "b": "1\n"})
	_, err := b.push()
	b.must(err)
	b.other("on main", map[string]string{"a": "2\n"})
	edits := map[string]Edit{"a": {Before: []byte("2\n"), After: []byte("3\n")}}
	first, err := b.remote.ProposeFiles(ctx, edits, "promote/a", "a")
	b.must(err)
	if !slices.Equal(first.Changed, []string{"a"}) || b.git(b.remote.URL, "show", "promote/a:a") != "3" || b.git(b.remote.URL, "show", "promote/a:b") != "1" {
		t.Errorf("proposed %+v", first)
	}
	if again, err := b.remote.ProposeFiles(ctx, edits, "promote/a", "a"); err != nil || again.Pushed || again.Commit != first.Commit {
		t.Errorf("again %+v, %v", again, err)
	}
	b.other("on main again", map[string]string{"b": "2\n"})
	if next, err := b.remote.ProposeFiles(ctx, edits, "promote/a", "a"); err != nil || len(b.parents(next.Commit)) != 2 || b.git(b.remote.URL, "show", "promote/a:b") != "2" {
		t.Errorf("next %+v, %v", next, err)
	}
	edits["a"] = Edit{Before: []byte("1\n"), After: []byte("3\n")}
	if _, err := b.remote.ProposeFiles(ctx, edits, "promote/a", "a"); codeOf(err) != "changed" {
		t.Errorf("changed meanwhile: %v", err)
	}
}

func TestCheckRepository(t *testing.T) {
	for name, ok := range map[string]bool{
		"shop": true, "shop-2": true, "": false, "estate": false, "-x": false, "x-": false, "../x": false, "a b": false, "Shop": false, "a\x1b": false, "a--b": false, strings.Repeat("a", 29): false,
	} {
		if err := CheckRepository(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestRelated(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	b.write(b.dir, map[string]string{"a": "1\n"})
	_, err := b.push()
	b.must(err)
	b.write(b.dir, map[string]string{"a": "2\n"})
	_, err = b.remote.Propose(ctx, b.tree(), "pr/x", "x")
	b.must(err)
	other := t.TempDir()
	b.must(os.WriteFile(other+"/a", []byte("3\n"), 0o644))
	b.initRepository(other)
	b.git(other, "push", "--quiet", b.remote.URL, "HEAD:refs/heads/stray")
	b.git(b.remote.URL, "branch", "same", "main")
	for head, code := range map[string]string{"pr/x": "", "stray": "unrelated", "same": "no_change", "none": "no_branch"} {
		err := b.remote.Related(ctx, "main", head)
		if codeOf(err) != code || code == "" && err != nil {
			t.Errorf("%s: %v, want %q", head, err, code)
		}
	}
	if err := b.remote.Related(ctx, "nothing", "pr/x"); codeOf(err) != "no_branch" {
		t.Errorf("no base: %v", err)
	}
}
