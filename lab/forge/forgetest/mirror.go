package forgetest

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"homelab/lab/forge"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// mirrorDir returns a folder in the estate's repository, so that it is moved and deleted with it.
func (f *Fake) mirrorDir(name string) string { return filepath.Join(f.Dir, "mirrors", name) }

func (f *Fake) mirror(m forge.Mirror) forge.Remote {
	dir := f.mirrorDir(m.Name)
	return forge.Remote{URL: dir, Branch: m.Branch, Now: time.Now, Commands: forge.Commands{Pull: "git -C " + m.Tree.Dir + " pull " + dir + " " + m.Branch}}
}

// Mirror creates a repository and pushes the working tree to it.
func (f *Fake) Mirror(ctx context.Context, m forge.Mirror, url, secret string, also ...string) (forge.PushResult, error) {
	if err := f.running(); err != nil {
		return forge.PushResult{}, err
	}
	dir := f.mirrorDir(m.Name)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		if _, err := git.PlainInit(dir, true); err != nil {
			return forge.PushResult{}, err
		}
	}
	res, err := f.mirror(m).Push(ctx, m.Tree, m.Name+": lab up")
	if err != nil {
		return res, err
	}
	carried, err := f.mirror(m).Carry(ctx, m.Tree)
	res.Changed, res.Kept = append(res.Changed, carried.Missing...), carried.Kept
	if hook := hookOf(url, secret, also); f.hooks[m.Name] != hook {
		f.hooks = maps.Clone(f.hooks)
		if f.hooks == nil {
			f.hooks = map[string]string{}
		}
		f.hooks[m.Name] = hook
		res.Changed = append(res.Changed, "webhook")
	}
	return res, err
}

// Mirrored returns what Mirror would change.
func (f *Fake) Mirrored(ctx context.Context, m forge.Mirror, url, secret string, also ...string) (forge.Mirrored, error) {
	if err := f.running(); err != nil {
		return forge.Mirrored{}, err
	}
	repo, err := git.PlainOpen(f.mirrorDir(m.Name))
	if errors.Is(err, git.ErrRepositoryNotExists) {
		return forge.Mirrored{Differs: []string{"repository " + m.Name + " is not in the forge"}}, nil
	}
	if err != nil {
		return forge.Mirrored{}, err
	}
	var res forge.Mirrored
	if ref, err := repo.Reference(plumbing.NewBranchReferenceName(m.Branch), true); err == nil {
		res.Commit = ref.Hash().String()
	}
	paths, err := f.mirror(m).Diff(ctx, m.Tree)
	for _, p := range paths {
		res.Differs = append(res.Differs, m.Name+"/"+p)
	}
	if err != nil {
		return res, err
	}
	carried, err := f.mirror(m).Carried(ctx, m.Tree)
	for _, ref := range carried.Missing {
		res.Differs = append(res.Differs, m.Name+"/"+ref)
	}
	if f.hooks[m.Name] != hookOf(url, secret, also) {
		res.Differs = append(res.Differs, "the webhook of repository "+m.Name+" is gone")
	}
	return res, err
}

// testMirror mirrors a clone in dir.
func testMirror(t *testing.T, s Subject, dir string) forge.Mirror {
	ctx := t.Context()
	write(t, dir, "apps/web.yaml", "one\n")
	m := forge.Mirror{Name: "gitops", Branch: "trunk", Of: "https://github.com/acme/gitops", Tree: forge.Tree{FS: os.DirFS(dir), Dir: dir}}
	const url = "http://172.18.0.2:30080/api/webhook"
	seen := func(want ...string) forge.Mirrored {
		t.Helper()
		got, err := s.Forge.Mirrored(ctx, m, url, "s")
		must(t, err)
		if !slices.Equal(got.Differs, want) {
			t.Errorf("differs in %q, want %q", got.Differs, want)
		}
		return got
	}
	estate := observe(t, s.Forge)
	seen("repository gitops is not in the forge")
	first, err := s.Forge.Mirror(ctx, m, url, "s")
	must(t, err)
	if !first.Pushed || !slices.Equal(first.Changed, []string{"apps/web.yaml", "webhook"}) || seen().Commit != first.Commit {
		t.Errorf("pushed %+v", first)
	}
	again, err := s.Forge.Mirror(ctx, m, url, "s")
	must(t, err)
	if again.Pushed || len(again.Changed) > 0 || again.Commit != first.Commit {
		t.Errorf("pushed again %+v", again)
	}
	write(t, dir, "apps/web.yaml", "two\n")
	if got := seen("gitops/apps/web.yaml"); got.Commit != first.Commit {
		t.Errorf("commit %s, want %s", got.Commit, first.Commit)
	}
	_, err = s.Forge.Mirror(ctx, m, url+"2", "s")
	must(t, err)
	seen("the webhook of repository gitops is gone")
	repo, err := git.PlainInit(dir, false)
	must(t, err)
	must(t, repo.Storer.SetReference(plumbing.NewSymbolicReference(plumbing.HEAD, plumbing.NewBranchReferenceName(m.Branch))))
	work, err := repo.Worktree()
	must(t, err)
	_, err = work.Add("apps")
	must(t, err)
	commit, err := work.Commit("one", &git.CommitOptions{Author: &object.Signature{Name: "a", Email: "a@lab.invalid", When: time.Now()}})
	must(t, err)
	for _, name := range []string{"refs/tags/v1", "refs/remotes/origin/release"} {
		must(t, repo.Storer.SetReference(plumbing.NewHashReference(plumbing.ReferenceName(name), commit)))
	}
	_, err = s.Forge.Mirror(ctx, m, url, "s")
	must(t, err)
	seen()
	must(t, repo.Storer.SetReference(plumbing.NewHashReference("refs/tags/v2", commit)))
	seen("gitops/refs/tags/v2")
	more, err := s.Forge.Mirror(ctx, m, url, "s")
	must(t, err)
	if !slices.Equal(more.Changed, []string{"refs/tags/v2"}) {
		t.Errorf("pushed %+v", more)
	}
	seen()
	if got := observe(t, s.Forge); got != estate {
		t.Errorf("the estate is %+v, was %+v", got, estate)
	}
	return m
}
