package forge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"homelab/lab"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// PullResult is what a pull brought.
type PullResult struct {
	Commit    string       // the forge's, 40 hex digits; empty where it has none
	Commits   []Commit     // of others that were brought, newest first
	Files     []PulledFile // sorted
	Committed string       // commit of it in the repository around the estate; empty for none
	Reason    string       // why there is none, where there is a repository
	Next      string       // what to type then; may be empty
}

// PulledFile is what a pull did to one file.
type PulledFile struct {
	Path   string
	Did    string // Took, Merged, Conflict or Kept
	Note   string // why, where that is not plain; may be empty
	Lines  []int  // where conflicts begin
	Beside string // where the forge's file is, which could not take its place
}

// pull is one pull as it was planned.
type pull struct {
	incoming
	journal
	commits []*object.Commit
	target  *object.Commit
}

// Pull brings what others committed in the forge into the working tree, file by file: what they alone changed is taken, what both sides changed is merged.
// Nothing of the working tree is lost: what cannot be merged gets conflict markers, or the forge's file is put beside it. It ends with an error of code
// "conflict" then, beside the result, and pushes are refused until that is resolved. A pull that was interrupted is resumed. With dry it only says
// what it would do.
//
// Where the estate lies in a Git repository, what was brought is committed there, unless that would touch what is not committed.
func (r Remote) Pull(ctx context.Context, tree Tree, dry bool) (PullResult, error) {
	if tree.Dir == "" {
		return PullResult{}, &lab.Error{
			Exit: lab.ExitFailed, Code: "embedded", Message: "the built-in estate cannot be changed: there is no folder to pull into", Cure: "lab init DIR writes it out",
		}
	}
	begun, err := r.begun(tree, dry)
	if err != nil {
		return PullResult{}, err
	}
	store := newStore(nil)
	ours, err := tree.read(store)
	if err != nil {
		return PullResult{}, err
	}
	seen, err := r.fetch(ctx, store)
	if err != nil || seen.head == nil {
		return PullResult{}, err
	}
	p, err := newPull(store, tree, seen, ours, begun)
	if err != nil {
		return PullResult{}, err
	}
	if dry {
		return p.result(), nil
	}
	if len(p.Changes) == 0 {
		if err := r.remember(ctx, seen, p.target.Hash); err != nil {
			return PullResult{}, err
		}
		return p.result(), r.note(nil)
	}
	around := openCheckout(ctx, tree)
	if err := around.dirty(ctx, p.Changes); err != nil {
		around.refuse(err.Error(), "git status")
	}
	if err := r.note(&p.journal); err != nil {
		return PullResult{}, err
	}
	if err := p.write(p.Changes); err != nil {
		return PullResult{}, err
	}
	res := p.result()
	res.Committed = around.commit(ctx, r.URL, p)
	res.Reason, res.Next = around.reason, around.next
	if err := r.remember(ctx, seen, p.target.Hash); err != nil {
		return res, err
	}
	return res, r.end(p, res)
}

// begun is the journal of a pull into the working tree that was interrupted; nil where there is none. Conflicts that are not resolved are an error.
func (r Remote) begun(tree Tree, dry bool) (*journal, error) {
	j, err := r.journal(tree)
	if err != nil || j == nil {
		return nil, err
	}
	if err := j.unresolved(tree, r.up()); err != nil {
		return nil, err
	}
	if j.Over || dry {
		return nil, nil
	}
	root, err := os.OpenRoot(tree.Dir)
	if err != nil {
		return nil, fmt.Errorf("estate: %w", err)
	}
	defer root.Close()
	for _, c := range j.Changes {
		for _, name := range []string{c.Path, c.Beside} {
			err := root.Remove(temporary(name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNotDir) {
				return nil, err
			}
		}
	}
	return j, nil
}

func newPull(store storer.EncodedObjectStorer, tree Tree, seen history, ours files, begun *journal) (*pull, error) {
	var done []change
	around := tree
	if begun != nil {
		was, ok, err := begun.history(store, seen)
		if err != nil {
			return nil, err
		}
		if ok {
			seen, around = was, Tree{} // a commit that the interrupted run made does not count as pulled
			if done, err = begun.done(tree); err != nil {
				return nil, err
			}
		}
	}
	theirs, err := filesOf(seen.head)
	if err != nil {
		return nil, err
	}
	a, err := seen.ahead(around, ours, theirs)
	if err != nil {
		return nil, err
	}
	p := &pull{commits: a.commits, target: seen.head, journal: journal{Dir: tree.Dir, Head: seen.head.Hash.String()}}
	if a.base != nil {
		p.Base = a.base.Hash.String()
	}
	p.incoming = incoming{store: store, tree: tree, base: a.files, ours: ours, theirs: theirs, head: seen.head.Hash}
	paths := slices.DeleteFunc(a.paths, func(path string) bool {
		return slices.ContainsFunc(done, func(c change) bool { return c.Path == path || c.Beside == path })
	})
	if p.Changes, err = p.changes(paths); err != nil {
		return nil, err
	}
	if len(done) == 0 {
		return p, nil
	}
	p.Changes = append(p.Changes, done...)
	slices.SortFunc(p.Changes, func(a, b change) int { return strings.Compare(a.Path, b.Path) })
	a.paths = nil
	for _, c := range p.Changes {
		a.paths = append(a.paths, c.Path)
	}
	others, err := seen.others()
	if err == nil {
		p.commits, err = a.authors(others)
	}
	return p, err
}

// history is what the forge had when the pull began, as far as it is still there.
func (j *journal) history(store storer.EncodedObjectStorer, now history) (was history, ok bool, err error) {
	if was.head, err = object.GetCommit(store, plumbing.NewHash(j.Head)); err != nil {
		return now, false, nil // others rewrote the branch
	}
	if ok, err = was.head.IsAncestor(now.head); err != nil || !ok {
		return now, false, err
	}
	if j.Base == "" {
		return was, true, nil
	}
	if was.last, err = object.GetCommit(store, plumbing.NewHash(j.Base)); err != nil {
		return now, false, nil
	}
	return was, true, nil
}

// done are the changes that are in the working tree already.
func (j *journal) done(tree Tree) ([]change, error) {
	var list []change
	for _, c := range j.Changes {
		at, want := c.Path, c.Result
		if c.Beside != "" {
			at, want = c.Beside, c.Theirs
		}
		now, err := entryOn(tree.FS, at)
		if err != nil {
			return nil, err
		}
		if now == want {
			c.done = true
			list = append(list, c)
		}
	}
	return list, nil
}

// end leaves a note of conflicts alone, and is the error for them.
func (r Remote) end(p *pull, res PullResult) error {
	p.Over = true
	p.Changes = slices.DeleteFunc(p.Changes, func(c change) bool { return c.Did != Conflict })
	if len(p.Changes) == 0 {
		return r.note(nil)
	}
	if err := r.note(&p.journal); err != nil {
		return err
	}
	var details []string
	beside := false
	for _, f := range res.Files {
		for _, line := range f.Lines {
			details = append(details, fmt.Sprintf("%s:%d", f.Path, line))
		}
		if f.Beside != "" {
			beside, details = true, append(details, f.Path+": theirs is in "+f.Beside)
		}
	}
	return conflictError(count(len(p.Changes), "file")+" could not be merged", details, beside, r.up())
}

func (p *pull) result() PullResult {
	res := PullResult{Commit: p.Head, Commits: summaries(p.commits)}
	for _, c := range p.Changes {
		f := PulledFile{Path: c.Path, Did: c.Did, Note: c.Note, Beside: c.Beside}
		if c.Did == Conflict && c.Beside == "" {
			text := c.text
			if text == nil { // written by an earlier run
				text, _ = fs.ReadFile(p.tree.FS, c.Path)
			}
			f.Lines = conflictsIn(string(text))
		}
		res.Files = append(res.Files, f)
	}
	return res
}
