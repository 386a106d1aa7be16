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
)

// PullResult is the result of a pull.
type PullResult struct {
	Commit    string       // the forge's head, 40 hex digits; may be empty
	Commits   []Commit     // pulled commits of others, newest first
	Files     []PulledFile // sorted
	Committed string       // commit in the enclosing repository, or empty
	Reason    string       // why there is none, if there is a repository
	Next      string       // suggested command; may be empty
}

// PulledFile is the result for one file.
type PulledFile struct {
	Path  string
	Did   string // Took, Merged, Conflict or Kept
	Note  string // reason, if not obvious
	Lines []int  // line numbers of conflicts
	Aside string // path of a forge file that could not take its place
}

// pull is a planned pull.
type pull struct {
	incoming
	journal
	commits []commit
}

// Pull pulls commits of others into the working tree, file by file: their changes are taken, changes of both sides are
// merged. No local change is lost: conflicts get markers, or the forge's file is written next to the local one. Then the
// error has code "conflict", and pushes are rejected until they are resolved. An interrupted pull is resumed. With dry,
// nothing is written.
//
// In a Git repository, the pull is committed unless that would include uncommitted changes.
func (r Remote) Pull(ctx context.Context, tree Tree, dry bool) (PullResult, error) {
	if tree.Dir == "" {
		return PullResult{}, &lab.Error{
			Exit: lab.ExitFailed, Code: "embedded", Message: "the built-in estate is read-only", Cure: "lab init DIR writes it out",
		}
	}
	begun, err := r.begun(tree, dry)
	if err != nil {
		return PullResult{}, err
	}
	res, lent, err := r.pullAt(ctx, tree, dry, begun, true)
	var known *lab.Error
	if err != nil && lent && !errors.As(err, &known) && ctx.Err() == nil && res.Commit == "" { // the clone may be incomplete
		res, _, err = r.pullAt(ctx, tree, dry, begun, false)
	}
	return res, err
}

// pullAt pulls, with the history of the estate's repository if lend is set. The result has no commit if nothing was begun.
func (r Remote) pullAt(ctx context.Context, tree Tree, dry bool, begun *journal, lend bool) (PullResult, bool, error) {
	ours, err := tree.read()
	if err != nil {
		return PullResult{}, false, err
	}
	d, err := r.open(ctx, tree, lend)
	if err != nil {
		return PullResult{}, false, err
	}
	defer d.Close()
	if err := d.fetch(ctx, 0); err != nil || d.head == "" {
		return PullResult{}, d.lent, err
	}
	p, err := newPull(ctx, d, tree, ours, begun)
	if err != nil {
		return PullResult{}, d.lent, err
	}
	res, err := r.finish(ctx, d, p, dry)
	return res, d.lent, err
}

// finish writes a planned pull.
func (r Remote) finish(ctx context.Context, d *depot, p *pull, dry bool) (PullResult, error) {
	if dry {
		return p.result(), nil
	}
	if len(p.Changes) == 0 {
		if err := d.remember(ctx, d.history, p.Head); err != nil {
			return PullResult{}, err
		}
		return p.result(), r.note(nil)
	}
	around := openCheckout(ctx, p.tree)
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
	res.Committed = around.commit(ctx, d, p)
	res.Reason, res.Next = around.reason, around.next
	if err := d.remember(ctx, d.history, p.Head); err != nil {
		return res, err
	}
	return res, r.end(p, res)
}

// begun returns the journal of an interrupted pull, or nil. Unresolved conflicts are an error.
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
		for _, name := range []string{c.Path, c.Aside} {
			err := root.Remove(temporary(name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNotDir) {
				return nil, err
			}
		}
	}
	return j, nil
}

func newPull(ctx context.Context, d *depot, tree Tree, ours files, begun *journal) (*pull, error) {
	var done []change
	seen, own := d.history, d.own
	if begun != nil {
		if was, ok := begun.history(ctx, d); ok {
			var err error
			seen, own = was, "" // the interrupted run's commit does not count as pulled
			if done, err = begun.done(tree); err != nil {
				return nil, err
			}
		}
	}
	theirs, err := d.files(ctx, seen.head)
	if err != nil {
		return nil, err
	}
	a, err := d.ahead(ctx, seen, own, ours, theirs)
	if err != nil {
		return nil, err
	}
	p := &pull{commits: a.commits, journal: journal{Dir: tree.Dir, Base: a.base, Head: seen.head}}
	p.incoming = incoming{depot: d, tree: tree, base: a.files, ours: ours, theirs: theirs, head: seen.head}
	paths := slices.DeleteFunc(a.paths, func(path string) bool {
		return slices.ContainsFunc(done, func(c change) bool { return c.Path == path || c.Aside == path })
	})
	if p.Changes, err = p.changes(ctx, paths); err != nil {
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
	others, err := d.others(ctx, seen)
	p.commits = a.authors(others)
	return p, err
}

// history returns the state of the forge when the pull began, as far as it still exists.
func (j *journal) history(ctx context.Context, d *depot) (history, bool) {
	has := func(commit string) bool {
		_, err := d.Run(ctx, "cat-file", "-e", commit+"^{commit}")
		return err == nil
	}
	was := history{head: j.Head, last: j.Base}
	if !d.is(ctx, was.head, d.head) || was.last != "" && !has(was.last) { // the branch was rewritten
		return d.history, false
	}
	return was, true
}

// done returns the changes that were already written.
func (j *journal) done(tree Tree) ([]change, error) {
	var list []change
	for _, c := range j.Changes {
		at, want := c.Path, c.Result
		if c.Aside != "" {
			at, want = c.Aside, c.Theirs
		}
		now, err := entryOn(tree.disk(), at)
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

// end keeps only the conflicts in the journal and returns their error.
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
	aside := false
	for _, f := range res.Files {
		for _, line := range f.Lines {
			details = append(details, fmt.Sprintf("%s:%d", f.Path, line))
		}
		if f.Aside != "" {
			aside, details = true, append(details, f.Path+": theirs is in "+f.Aside)
		}
	}
	return conflictError(count(len(p.Changes), "file")+" could not be merged", details, aside, r.up())
}

func (p *pull) result() PullResult {
	res := PullResult{Commit: p.Head, Commits: summaries(p.commits)}
	for _, c := range p.Changes {
		f := PulledFile{Path: c.Path, Did: c.Did, Note: c.Note, Aside: c.Aside}
		if c.Did == Conflict && c.Aside == "" {
			text := c.text
			if text == nil { // written by an earlier run
				text, _ = fs.ReadFile(p.tree.disk(), c.Path)
			}
			f.Lines = conflictsIn(string(text))
		}
		res.Files = append(res.Files, f)
	}
	return res
}
