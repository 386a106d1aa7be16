package forgetest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/forge"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// Foreign returns what others put into the forge.
func (f *Fake) Foreign(ctx context.Context, tree forge.Tree, mirrors []forge.Mirror) (forge.Foreign, error) {
	if s, err := f.Observe(ctx); err == nil && s.Answers && !s.Prepared {
		return forge.Foreign{}, nil
	}
	if err := f.running(); err != nil {
		return forge.Foreign{}, err
	}
	all := forge.Foreign{Requests: f.requests, Items: f.items, Repositories: f.repositories}
	commits, err := f.foreign(tree)
	if err != nil {
		return all, err
	}
	all.Commits = append(commits, f.held.branches...)
	dirs, err := os.ReadDir(f.mirrorDir(""))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return all, err
	}
	for _, dir := range dirs {
		m := forge.Mirror{Name: dir.Name(), Branch: "trunk"}
		if i := slices.IndexFunc(mirrors, func(m forge.Mirror) bool { return m.Name == dir.Name() }); i >= 0 {
			m = mirrors[i]
		}
		commits, err := f.mirror(m).Foreign(ctx, m.Tree)
		if err != nil {
			return all, err
		}
		for _, c := range commits {
			c.Repository = m.Name
			all.Commits = append(all.Commits, c)
		}
	}
	return all, nil
}

// foreign returns the commits of others on the branch that engines follow that a working tree lacks.
func (f *Fake) foreign(tree forge.Tree) ([]forge.ForeignCommit, error) {
	list := f.held.foreign()
	if tree.FS == nil {
		return list, nil
	}
	ours, err := read(tree)
	_, by := f.held.ahead(ours)
	return slices.DeleteFunc(list, func(c forge.ForeignCommit) bool {
		return !slices.ContainsFunc(by, func(b forge.Commit) bool { return b.Hash == c.Hash })
	}), err
}

// Wake starts a stopped or paused forge as it is.
func (f *Fake) Wake(context.Context) (bool, error) {
	switch {
	case f.inputs == "":
		return false, nil
	case f.silent:
		return true, &lab.Error{Exit: lab.ExitFailed, Code: "forge", Message: "the lab's Git server does not answer"}
	}
	f.up, f.paused = true, false
	return true, nil
}

// Add records an open pull request, or repositories of others.
func (f *Fake) Add(request forge.PullRequest, repositories ...string) {
	if request.Title != "" {
		f.requests = append(slices.Clone(f.requests), request)
	}
	f.repositories = slices.Concat(f.repositories, repositories)
}

// AddItem records an issue, a release or a page of a wiki.
func (f *Fake) AddItem(i forge.Item) { f.items = append(slices.Clone(f.items), i) }

// testForeign checks that what others put into the forge is found, and that what lab put there is not.
func testForeign(t *testing.T, s Subject, tree forge.Tree) {
	ctx := t.Context()
	foreign := func(tree forge.Tree, mirrors ...forge.Mirror) forge.Foreign {
		t.Helper()
		got, err := s.Forge.Foreign(ctx, tree, mirrors)
		must(t, err)
		return got
	}
	if got := foreign(tree, s.mirror); !got.Empty() {
		t.Errorf("of others %+v, want nothing", got)
	}
	before := observe(t, s.Forge)
	s.Other(t, "theirs", "theirs.txt", "for foreign\n", "clusters/new.txt", "new\n")
	s.Strangers(t)
	want := []string{"estate main ann theirs [clusters/new.txt theirs.txt]", "estate try ann try it [try.txt]"}
	got := foreign(tree, s.mirror)
	if lines := commitLines(got); !slices.Equal(lines, want) {
		t.Errorf("commits of others %q, want %q", lines, want)
	}
	if len(got.Requests) != 1 || got.Requests[0].Title != "Try it" || got.Requests[0].Number < 1 || got.Requests[0].Repository == "" || got.Requests[0].Author == "" {
		t.Errorf("pull requests %+v", got.Requests)
	}
	var items []string
	for _, i := range got.Items {
		items = append(items, i.Kind+" "+i.Title)
	}
	if want := []string{"issue #2 It breaks", "release First", "wiki page Home"}; !slices.Equal(items, want) || got.Items[0].Repository != got.Requests[0].Repository || got.Items[0].Author == "" {
		t.Errorf("besides commits %+v, want %q", got.Items, want)
	}
	if !slices.Equal(got.Repositories, []string{"ann/notes"}) {
		t.Errorf("repositories of others %q", got.Repositories)
	}
	if lines := commitLines(foreign(forge.Tree{}, s.mirror)); !slices.Equal(lines, want) {
		t.Errorf("without a working tree, commits of others %q, want %q", lines, want)
	}
	if lines := commitLines(foreign(tree)); !slices.Equal(lines, append(slices.Clone(want), "gitops release a one [apps/web.yaml]")) {
		t.Errorf("without the mirror's clone, commits of others %q", lines)
	}
	write(t, tree.Dir, "theirs.txt", "for foreign\n")
	write(t, tree.Dir, "clusters/new.txt", "new\n")
	if lines := commitLines(foreign(tree, s.mirror)); !slices.Equal(lines, want[1:]) {
		t.Errorf("commits that the working tree lacks %q, want %q", lines, want[1:])
	}
	s.Pause(t)
	if _, err := s.Forge.Foreign(ctx, tree, nil); !hasCode(err, "no_forge") {
		t.Errorf("paused: %v, want no_forge", err)
	}
	for _, halt := range []func(*testing.T){nil, s.Stop} {
		if halt != nil {
			halt(t)
		}
		woken, err := s.Forge.Wake(ctx)
		must(t, err)
		if after := observe(t, s.Forge); !woken || after.Inputs != before.Inputs || after.HostURL != before.HostURL || !after.Prepared {
			t.Errorf("woken %t: %+v, was %+v", woken, after, before)
		}
	}
	if lines := commitLines(foreign(tree, s.mirror)); !slices.Equal(lines, want[1:]) {
		t.Errorf("after waking, commits of others %q, want %q", lines, want[1:])
	}
	_, err := s.Forge.Push(ctx, tree, "with theirs")
	must(t, err)
}

func commitLines(f forge.Foreign) []string {
	var lines []string
	for _, c := range f.Commits {
		line := c.Repository + " " + c.Branch + " " + c.Author + " " + c.Message + " ["
		for i, file := range c.Files {
			if i > 0 {
				line += " "
			}
			line += file
		}
		lines = append(lines, line+"]")
	}
	return lines
}

// Branch clones a repository, commits files (name, text, name, text, ...) to a new branch as another user, and pushes it.
func Branch(t *testing.T, url string, auth transport.AuthMethod, branch, message string, files ...string) {
	t.Helper()
	dir := t.TempDir()
	repo, err := git.PlainClone(dir, false, &git.CloneOptions{URL: url, Auth: auth, ReferenceName: plumbing.NewBranchReferenceName(forge.Branch)})
	must(t, err)
	w, err := repo.Worktree()
	must(t, err)
	must(t, w.Checkout(&git.CheckoutOptions{Branch: plumbing.NewBranchReferenceName(branch), Create: true}))
	for pair := range slices.Chunk(files, 2) {
		write(t, dir, filepath.FromSlash(pair[0]), pair[1])
	}
	must(t, w.AddWithOptions(&git.AddOptions{All: true}))
	_, err = w.Commit(message, &git.CommitOptions{Author: &object.Signature{Name: "ann", Email: "ann@example.org", When: time.Now()}})
	must(t, err)
	must(t, repo.Push(&git.PushOptions{Auth: auth}))
}
