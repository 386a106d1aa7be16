package forge

import (
	"context"
	"errors"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

const (
	// Timeout of a push with the estate's history; then it is retried without
	shareTimeout = 20 * time.Second
	// Limit of commits: all are read on every push
	maxShared = 5000
)

// ownRef is the head of the estate's repository in memory, so that a fetch skips known objects.
const ownRef = plumbing.ReferenceName("refs/own/head")

// ownHistory is the repository whose root is the estate. It is only read; nil for none.
type ownHistory struct {
	objects storer.EncodedObjectStorer
	head    plumbing.Hash
}

// own returns the history to push, or nil if it is unreadable, shallow or too long.
func (t Tree) own(ctx context.Context) *ownHistory {
	if t.Dir == "" {
		return nil
	}
	repo, err := git.PlainOpenWithOptions(t.Dir, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if err != nil {
		return nil
	}
	if shallow, err := repo.Storer.Shallow(); err != nil || len(shallow) > 0 {
		return nil
	}
	ref, err := repo.Head()
	if err != nil {
		return nil
	}
	head, err := repo.CommitObject(ref.Hash())
	if err != nil {
		return nil
	}
	n := 0
	err = object.NewCommitPreorderIter(head, nil, nil).ForEach(func(*object.Commit) error {
		if n++; n > maxShared {
			return errors.New("too long")
		}
		return ctx.Err()
	})
	if err != nil {
		return nil
	}
	return &ownHistory{objects: repo.Storer, head: head.Hash}
}

// store returns an in-memory repository that includes the history's objects.
func (o *ownHistory) store() (*layered, error) {
	if o == nil {
		return newStore(nil), nil
	}
	store := newStore(o.objects)
	return store, store.SetReference(plumbing.NewHashReference(ownRef, o.head))
}

// tip returns the history's head if the forge's branch can fast-forward to it and it equals the working tree, else
// zero.
func (o *ownHistory) tip(store storer.EncodedObjectStorer, seen history, root plumbing.Hash) (plumbing.Hash, error) {
	if o == nil {
		return plumbing.ZeroHash, nil
	}
	head, err := object.GetCommit(store, o.head)
	if err != nil || head.TreeHash != root {
		return plumbing.ZeroHash, err
	}
	if seen.head != nil {
		if ok, err := seen.head.IsAncestor(head); err != nil || !ok {
			return plumbing.ZeroHash, err
		}
	}
	return o.head, nil
}

// parents returns the parents of a commit besides the forge's head: the history's head, unless the forge has it.
func (o *ownHistory) parents(store storer.EncodedObjectStorer, seen history) []plumbing.Hash {
	if o == nil {
		return nil
	}
	if seen.head != nil {
		head, err := object.GetCommit(store, o.head)
		if err != nil {
			return nil
		}
		if ok, err := head.IsAncestor(seen.head); err != nil || ok {
			return nil
		}
	}
	return []plumbing.Hash{o.head}
}

// pulled returns a function that reports whether HEAD of the estate's repository contains a commit.
func (t Tree) pulled() func(*object.Commit) bool {
	never := func(*object.Commit) bool { return false }
	if t.Dir == "" {
		return never
	}
	repo, err := git.PlainOpenWithOptions(t.Dir, &git.PlainOpenOptions{DetectDotGit: true, EnableDotGitCommonDir: true})
	if err != nil {
		return never // no readable repository: compare files instead
	}
	ref, err := repo.Head()
	if err != nil {
		return never
	}
	head, err := repo.CommitObject(ref.Hash())
	if err != nil {
		return never
	}
	return func(c *object.Commit) bool {
		c, err := repo.CommitObject(c.Hash)
		if err != nil {
			return false
		}
		ok, err := c.IsAncestor(head)
		return err == nil && ok
	}
}
