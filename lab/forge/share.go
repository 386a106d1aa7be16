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
	// shareLimit is how long a push may take that carries the estate's own history; then it does without.
	shareLimit = 20 * time.Second
	// shareMost is how many commits such a history may have: all are read, with every push.
	shareMost = 5000
)

// ownRef names the head of the estate's own repository in memory, so that a fetch does not ask for what is there.
const ownRef = plumbing.ReferenceName("refs/own/head")

// ownHistory is the repository that an estate is the root of. It is read and never written; nil is none.
type ownHistory struct {
	objects storer.EncodedObjectStorer
	head    plumbing.Hash
}

// own is the history that a push of the tree may carry. One that cannot be read, is shallow or too long is none.
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
		if n++; n > shareMost {
			return errors.New("too long")
		}
		return ctx.Err()
	})
	if err != nil {
		return nil
	}
	return &ownHistory{objects: repo.Storer, head: head.Hash}
}

// store is a repository in memory that has the history's objects as well.
func (o *ownHistory) store() (*layered, error) {
	if o == nil {
		return newStore(nil), nil
	}
	store := newStore(o.objects)
	return store, store.SetReference(plumbing.NewHashReference(ownRef, o.head))
}

// tip is the history's own head where the forge's branch can simply move on to it: it holds the working tree, and all that the forge has. Else it is zero.
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

// parents are what a commit has beside the forge's head: the history's head, unless the forge has it.
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

// pulled returns a function that reports whether the repository of the working tree has a commit in the history of what is checked out.
func (t Tree) pulled() func(*object.Commit) bool {
	never := func(*object.Commit) bool { return false }
	if t.Dir == "" {
		return never
	}
	repo, err := git.PlainOpenWithOptions(t.Dir, &git.PlainOpenOptions{DetectDotGit: true, EnableDotGitCommonDir: true})
	if err != nil {
		return never // not in a repository, or in one that go-git cannot read: the files themselves decide
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
