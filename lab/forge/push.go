package forge

import (
	"context"
	"errors"
	"maps"

	"homelab/lab"
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

// share pushes with the history of the estate's repository if possible, else without: it may be incomplete.
func (r Remote) share(ctx context.Context, tree Tree, message string) (PushResult, error) {
	d, err := r.open(ctx, tree, true)
	if err != nil {
		return PushResult{}, err
	}
	lent := d.lent
	res, err := d.pushed(ctx, tree, message)
	var moved *movedError
	var refused *lab.Error
	if err == nil || !lent || errors.As(err, &moved) || errors.As(err, &refused) || ctx.Err() != nil {
		return res, err
	}
	if d, err = r.open(ctx, tree, false); err != nil {
		return PushResult{}, err
	}
	return d.pushed(ctx, tree, message)
}

// pushed pushes the working tree and closes the depot.
func (d *depot) pushed(ctx context.Context, tree Tree, message string) (PushResult, error) {
	defer d.Close()
	from := tree.Listed()
	ours, err := read(from)
	if err != nil {
		return PushResult{}, err
	}
	if err := d.fetch(ctx, 0); err != nil {
		return PushResult{}, err
	}
	theirs, err := d.files(ctx, d.head)
	if err != nil {
		return PushResult{}, err
	}
	if d.head != "" && maps.Equal(ours, theirs) {
		return PushResult{Commit: d.head}, nil
	}
	if err := d.safe(ctx, ours, theirs); err != nil {
		return PushResult{}, err
	}
	root, err := d.store(ctx, from, ours, theirs)
	if err != nil {
		return PushResult{}, err
	}
	commit := d.tip(ctx, root)
	if commit == "" {
		if commit, err = d.commit(ctx, root, message, d.remote.Now(), d.parents(ctx)); err != nil {
			return PushResult{}, err
		}
	}
	updates := []update{{d.remote.branch(), d.head, commit}}
	if d.last != commit {
		updates = append(updates, update{lastRef, d.last, commit})
	}
	if err := d.push(ctx, updates...); err != nil {
		return PushResult{}, d.moved(ctx, err)
	}
	return PushResult{Commit: commit, Changed: changed(theirs, ours), Pushed: true}, nil
}

// shares reports whether the history of the estate's repository is the estate's.
func (d *depot) shares() bool { return d.lent && d.root && d.own != "" }

// tip returns the commit that is checked out if the forge's branch can fast-forward to it and it equals the working tree, else "".
func (d *depot) tip(ctx context.Context, root string) string {
	if !d.shares() || d.head != "" && !d.is(ctx, d.head, d.own) {
		return ""
	}
	if tree, err := d.Run(ctx, "rev-parse", "--verify", d.own+"^{tree}"); err != nil || tree != root {
		return ""
	}
	return d.own
}

// parents returns the parents of a commit: the forge's head, and what is checked out, unless the forge has it.
func (d *depot) parents(ctx context.Context) []string {
	var list []string
	if d.head != "" {
		list = append(list, d.head)
	}
	if d.shares() && !d.is(ctx, d.own, d.head) {
		list = append(list, d.own)
	}
	return list
}

// movedError is the error of a push that lost a race.
type movedError struct{ err error }

func (e *movedError) Error() string { return e.err.Error() }
func (e *movedError) Unwrap() error { return e.err }

// moved checks whether a push failed because another was faster. Servers word that differently, so the branch is
// compared.
func (d *depot) moved(ctx context.Context, err error) error {
	head, rerr := d.remote.head(ctx)
	if rerr != nil || head == d.head {
		return err
	}
	return &movedError{err}
}

// Diff returns the paths that a push would change, sorted.
func (r Remote) Diff(ctx context.Context, tree Tree) ([]string, error) {
	ours, err := tree.read()
	if err != nil {
		return nil, err
	}
	d, err := r.open(ctx, Tree{}, false)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	const headAlone = 1
	if err := d.fetch(ctx, headAlone); err != nil {
		return nil, err
	}
	theirs, err := d.files(ctx, d.head)
	if err != nil {
		return nil, err
	}
	return changed(theirs, ours), nil
}
