package live

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"

	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
)

// bare creates a repository with one commit in place of the forge.
func bare(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "estate.git")
	repo, err := git.PlainInit(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := repo.Storer.SetReference(plumbing.NewSymbolicReference(plumbing.HEAD, "refs/heads/main")); err != nil {
		t.Fatal(err)
	}
	cfg, err := repo.Config()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Raw.Section("receive").SetOption("fsckObjects", "true") // have git itself check the objects
	if err := repo.SetConfig(cfg); err != nil {
		t.Fatal(err)
	}
	g := &Git{store: memory.NewStorage()}
	root, err := g.changed(&object.Tree{}, scenariotest.ContractFiles())
	if err != nil {
		t.Fatal(err)
	}
	commit := &object.Commit{Message: "first\n", TreeHash: root}
	o := g.store.NewEncodedObject()
	if err := commit.Encode(o); err != nil {
		t.Fatal(err)
	}
	hash, err := g.store.SetEncodedObject(o)
	if err != nil {
		t.Fatal(err)
	}
	for h, o := range g.store.Objects {
		if _, err := repo.Storer.SetEncodedObject(o); err != nil {
			t.Fatal(h, err)
		}
	}
	if err := repo.Storer.SetReference(plumbing.NewHashReference("refs/heads/main", hash)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestGitContract(t *testing.T) {
	g := NewGit(bare(t), nil)
	scenariotest.ForgeContract(t, g, g)
}

// The first commit of an empty repository begins its branch.
func TestGitEmpty(t *testing.T) {
	dir := t.TempDir()
	if _, err := git.PlainInit(dir, true); err != nil {
		t.Fatal(err)
	}
	g := NewGit(dir, nil)
	for _, text := range []string{"1", "2"} {
		if _, err := g.Commit(t.Context(), scenario.Change{Branch: scenario.Branch, Author: "x", Message: "m", Files: map[string]*scenario.File{"a/b": {Content: []byte(text)}}}); err != nil {
			t.Fatal(err)
		}
		tree, err := g.Tree(t.Context(), scenario.Branch)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := fs.ReadFile(tree.FS, "a/b"); err != nil || string(data) != text {
			t.Errorf("%q, %v", data, err)
		}
	}
}

func TestGitConcurrentCommits(t *testing.T) {
	dir := bare(t)
	ours, theirs := NewGit(dir, nil), NewGit(dir, nil)
	commit := func(g *Git, name, text string) {
		t.Helper()
		_, err := g.Commit(t.Context(), scenario.Change{Branch: scenario.Branch, Author: "x", Message: name, Files: map[string]*scenario.File{name: {Content: []byte(text)}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	commit(ours, "ours", "1")
	commit(theirs, "theirs", "2")
	commit(ours, "ours", "3")
	tree, err := theirs.Tree(t.Context(), scenario.Branch)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"ours": "3", "theirs": "2"} {
		if data, err := fs.ReadFile(tree.FS, name); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	repo, err := git.PlainOpen(dir)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := repo.Reference("refs/heads/main", true)
	if err != nil {
		t.Fatal(err)
	}
	head, err := repo.CommitObject(ref.Hash())
	if err != nil || head.NumParents() != 1 || !strings.HasSuffix(head.Author.Email, "@scenario.invalid") {
		t.Errorf("head %v, %v", head, err)
	}
}

func TestGitErrors(t *testing.T) {
	g := NewGit(filepath.Join(t.TempDir(), "nothing"), nil)
	if _, err := g.Tree(t.Context(), scenario.Branch); err == nil || !strings.Contains(err.Error(), "fetch from the forge") {
		t.Errorf("no repository: %v", err)
	}
	g = NewGit(bare(t), nil)
	_, err := g.Commit(t.Context(), scenario.Change{Branch: scenario.Branch, Author: "x", Message: "m", Files: map[string]*scenario.File{"README/file": {Content: []byte("x")}}})
	if err == nil || !strings.Contains(err.Error(), "README is a file") {
		t.Errorf("a file as a folder: %v", err)
	}
	if err := g.RemoveBranch(t.Context(), scenario.Branch); err == nil {
		t.Error("the engines' branch was removed")
	}
}
