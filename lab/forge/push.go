package forge

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"homelab/lab"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// Author of lab's commits, with a domain that cannot receive mail.
const (
	authorHost  = "lab.invalid"
	authorEmail = "lab@" + authorHost
)

// pushAttempts is how often a push is tried when others push at the same time.
const pushAttempts = 5

// PushResult is the result of a push.
type PushResult struct {
	Commit  string   // the forge's head afterwards, 40 hex digits
	Changed []string // changed paths, sorted
	Pushed  bool     // false if the forge already had the working tree
	Kept    []string // a mirror's references that others moved away from the clone's
}

// Push commits the working tree on top of the forge's branch. It never discards commits of others: it is rejected
// unless the working tree has all their changes. It never forces and retries on concurrent pushes. It is rejected
// during unresolved conflicts of a pull.
//
// If the estate is the root of a Git repository, the commit includes that repository's history, or is its head.
func (r Remote) Push(ctx context.Context, tree Tree, message string) (PushResult, error) {
	if err := r.settled(tree); err != nil {
		return PushResult{}, err
	}
	for attempt := 1; ; attempt++ {
		res, err := r.share(ctx, tree, message)
		var moved *movedError
		switch {
		case err == nil:
			return res, r.forget(tree)
		case !errors.As(err, &moved) || attempt == pushAttempts:
			return res, err
		}
	}
}

// share pushes with the history of the estate's repository if possible, else without.
func (r Remote) share(ctx context.Context, tree Tree, message string) (PushResult, error) {
	limited, cancel := context.WithTimeout(ctx, shareTimeout)
	defer cancel()
	if own := tree.own(limited); own != nil {
		res, err := r.push(limited, tree, message, own)
		var moved *movedError
		var refused *lab.Error
		if err == nil || errors.As(err, &moved) || errors.As(err, &refused) || ctx.Err() != nil {
			return res, err
		}
	}
	return r.push(ctx, tree, message, nil)
}

func (r Remote) push(ctx context.Context, tree Tree, message string, own *ownHistory) (PushResult, error) {
	store, err := own.store()
	if err != nil {
		return PushResult{}, err
	}
	ours, err := tree.read(store)
	if err != nil {
		return PushResult{}, err
	}
	root, err := ours.write(store)
	if err != nil {
		return PushResult{}, err
	}
	seen, err := r.fetch(ctx, store)
	if err != nil {
		return PushResult{}, err
	}
	if seen.head != nil && seen.head.TreeHash == root {
		return PushResult{Commit: seen.head.Hash.String()}, nil
	}
	theirs, err := filesOf(seen.head)
	if err != nil {
		return PushResult{}, err
	}
	if err := r.safe(seen, tree, ours, theirs); err != nil {
		return PushResult{}, err
	}
	commit, err := own.tip(store, seen, root)
	if err != nil {
		return PushResult{}, err
	}
	if commit.IsZero() {
		if commit, err = seen.commit(store, root, message, r.Now(), own.parents(store, seen)); err != nil {
			return PushResult{}, err
		}
	}
	if err := r.send(ctx, store, seen, commit); err != nil {
		return PushResult{}, r.moved(ctx, seen, err)
	}
	return PushResult{Commit: commit.String(), Changed: changed(theirs, ours), Pushed: true}, nil
}

// movedError is the error of a push that lost a race.
type movedError struct{ err error }

func (e *movedError) Error() string { return e.err.Error() }
func (e *movedError) Unwrap() error { return e.err }

// moved checks whether a push failed because another was faster. Servers word that differently, so the branch is
// compared.
func (r Remote) moved(ctx context.Context, seen history, err error) error {
	head, _, rerr := r.refs(ctx)
	if rerr != nil || seen.head == nil && head.IsZero() || seen.head != nil && head == seen.head.Hash {
		return err
	}
	return &movedError{err}
}

// Diff returns the paths that a push would change, sorted.
func (r Remote) Diff(ctx context.Context, tree Tree) ([]string, error) {
	store := newStore(nil)
	ours, err := tree.read(store)
	if err != nil {
		return nil, err
	}
	const headAlone = 1
	seen, err := r.fetchDepth(ctx, store, headAlone)
	if err != nil {
		return nil, err
	}
	theirs, err := filesOf(seen.head)
	if err != nil {
		return nil, err
	}
	return changed(theirs, ours), nil
}

func (h history) commit(store storer.EncodedObjectStorer, root plumbing.Hash, message string, now time.Time, more []plumbing.Hash) (plumbing.Hash, error) {
	who := object.Signature{Name: "lab", Email: authorEmail, When: now}
	c := &object.Commit{Author: who, Committer: who, Message: strings.TrimRight(message, "\n") + "\n", TreeHash: root}
	if h.head != nil {
		c.ParentHashes = []plumbing.Hash{h.head.Hash}
	}
	c.ParentHashes = slices.Concat(c.ParentHashes, more)
	o := store.NewEncodedObject()
	if err := c.Encode(o); err != nil {
		return plumbing.ZeroHash, err
	}
	return store.SetEncodedObject(o)
}
