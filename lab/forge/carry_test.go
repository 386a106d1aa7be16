package forge

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5"

	"homelab/lab/gitcommand"
)

// gitIn runs git in a folder and returns its output.
func (b *bench) gitIn(dir string, args ...string) string {
	b.t.Helper()
	c := gitcommand.Command{Dir: dir, Limit: carryLimit, AsUser: true, Config: []string{"user.name=a", "user.email=a@lab.invalid"}, Env: []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null"}}
	out, err := c.Run(b.t.Context(), args...)
	b.must(err)
	return out
}

// clone makes a clone with the branches main and fix, origin's release, and the tag v1.
func (b *bench) clone() Tree {
	b.t.Helper()
	upstream, dir := b.t.TempDir(), filepath.Join(b.t.TempDir(), "clone")
	b.gitIn(upstream, "init", "--quiet", "--initial-branch", "main")
	b.write(upstream, map[string]string{"a": "1\n"})
	b.gitIn(upstream, "add", "-A")
	b.gitIn(upstream, "commit", "--quiet", "-m", "one")
	b.gitIn(upstream, "tag", "-a", "-m", "first", "v1")
	b.gitIn(upstream, "branch", "release")
	b.gitIn(upstream, "clone", "--quiet", upstream, dir)
	b.gitIn(dir, "branch", "fix")
	hook := filepath.Join(dir, ".git/hooks/pre-push")
	b.must(os.MkdirAll(filepath.Dir(hook), 0o755))
	b.must(os.WriteFile(hook, []byte("#!/bin/sh\nexit 1\n"), 0o755))
	return Tree{FS: os.DirFS(dir), Dir: dir}
}

// carry carries a clone to the forge and compares the missing and kept refs.
func (b *bench) carry(tree Tree, missing, kept string) {
	b.t.Helper()
	got, err := b.remote.Carry(b.t.Context(), tree)
	b.must(err)
	if strings.Join(got.Missing, " ") != missing || strings.Join(got.Kept, " ") != kept {
		b.t.Errorf("carried %v, kept %v; want %q, %q", got.Missing, got.Kept, missing, kept)
	}
	left, err := b.remote.Carried(b.t.Context(), tree)
	b.must(err)
	if len(left.Missing) > 0 || !slices.Equal(left.Kept, got.Kept) {
		b.t.Errorf("left %+v", left)
	}
}

func TestCarry(t *testing.T) {
	b := newBench(t)
	tree := b.clone()
	_, err := b.remote.Push(t.Context(), tree, "x")
	b.must(err)
	b.carry(tree, "refs/heads/fix refs/heads/release refs/tags/v1", "")
	if b.gitIn(b.remote.URL, "rev-parse", "v1^{commit}") != b.gitIn(tree.Dir, "rev-parse", "HEAD") || b.gitIn(b.remote.URL, "cat-file", "-t", "v1") != "tag" {
		t.Error("tag differs")
	}
	b.carry(tree, "", "")

	// A branch with new commits is carried.
	b.gitIn(tree.Dir, "switch", "--quiet", "fix")
	b.write(tree.Dir, map[string]string{"a": "2\n"})
	b.gitIn(tree.Dir, "commit", "--quiet", "-a", "-m", "two")
	b.gitIn(tree.Dir, "switch", "--quiet", "main")
	b.carry(tree, "refs/heads/fix", "")

	// Commits of others stay, whether on top of the clone's branch or diverged.
	other := filepath.Join(t.TempDir(), "other")
	b.gitIn(t.TempDir(), "clone", "--quiet", b.remote.URL, other)
	for _, branch := range []string{"fix", "release"} {
		b.gitIn(other, "switch", "--quiet", branch)
		b.write(other, map[string]string{"b": "theirs\n"})
		b.gitIn(other, "add", "-A")
		b.gitIn(other, "commit", "--quiet", "-m", "theirs")
		b.gitIn(other, "push", "--quiet", "origin", branch)
	}
	b.gitIn(tree.Dir, "switch", "--quiet", "fix")
	b.write(tree.Dir, map[string]string{"a": "3\n"})
	b.gitIn(tree.Dir, "commit", "--quiet", "-a", "-m", "three")
	b.gitIn(tree.Dir, "tag", "--force", "v1")
	b.gitIn(tree.Dir, "switch", "--quiet", "main")
	was := b.gitIn(b.remote.URL, "for-each-ref")
	b.carry(tree, "", "refs/heads/fix refs/heads/release refs/tags/v1")
	if now := b.gitIn(b.remote.URL, "for-each-ref"); now != was {
		t.Errorf("the forge has\n%s\nhad\n%s", now, was)
	}
}

// A folder without a clone, and a shallow clone, have no other revisions.
func TestCarryNothing(t *testing.T) {
	b := newBench(t)
	tree := b.clone()
	shallow := filepath.Join(t.TempDir(), "shallow")
	b.gitIn(t.TempDir(), "clone", "--quiet", "--depth", "1", "file://"+tree.Dir, shallow)
	for _, dir := range []string{"", t.TempDir(), shallow} {
		c, err := b.remote.Carry(t.Context(), Tree{Dir: dir})
		if err != nil || len(c.Missing)+len(c.Kept) > 0 {
			t.Errorf("%s: %+v, %v", dir, c, err)
		}
	}
	if _, err := git.PlainOpen(shallow); err != nil {
		t.Fatal(err)
	}
}
