package forge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"homelab/lab"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Addresses of a story's commits and of their undo, as in lab/scenario/live.
const (
	storyHost = "@scenario.invalid"
	storyLab  = "lab" + storyHost
)

// ahead holds the forge's changes that the working tree lacks.
type ahead struct {
	base    *object.Commit   // newest forge commit that the working tree had, or nil
	files   files            // of base
	paths   []string         // changed by others after base and different in the working tree, sorted
	commits []*object.Commit // commits that changed these paths, newest first
}

// ahead compares the working tree with the forge. Changes of others are those after lab's last push or pull, or after a
// later commit pulled with git.
func (h history) ahead(tree Tree, ours, theirs files) (ahead, error) {
	if h.head == nil || h.last != nil && h.last.Hash == h.head.Hash {
		return ahead{base: h.head, files: theirs}, nil
	}
	others, err := h.others()
	if err != nil {
		return ahead{}, err
	}
	base, err := h.base(tree, others)
	if err != nil {
		return ahead{}, err
	}
	a := ahead{base: base}
	if a.files, err = filesOf(base); err != nil {
		return a, err
	}
	for _, path := range changed(a.files, theirs) {
		if ours[path] != theirs[path] {
			a.paths = append(a.paths, path)
		}
	}
	a.commits, err = a.authors(others)
	return a, err
}

// base returns the newest forge commit that the working tree had.
func (h history) base(tree Tree, others []*object.Commit) (*object.Commit, error) {
	pulled := tree.pulled()
	for _, c := range others {
		if !pulled(c) {
			continue
		}
		if h.last == nil {
			return c, nil
		}
		follows, err := h.last.IsAncestor(c)
		if err != nil {
			return nil, err
		}
		kept, err := h.last.IsAncestor(h.head)
		if err != nil {
			return nil, err
		}
		if follows || !kept { // the branch may have been rewritten
			return c, nil
		}
	}
	return h.last, nil
}

// authors returns the commits, newest first, that produced the current content of the paths. Reverted ones are left
// out.
func (a ahead) authors(commits []*object.Commit) ([]*object.Commit, error) {
	if i := slices.IndexFunc(commits, func(c *object.Commit) bool { return a.base != nil && c.Hash == a.base.Hash }); i >= 0 {
		commits = commits[:i]
	}
	counts := map[plumbing.Hash]bool{}
	for _, path := range a.paths {
		left, err := left(path, a.files[path], commits)
		if err != nil {
			return nil, err
		}
		for _, c := range left {
			counts[c.Hash] = true
		}
	}
	list := slices.DeleteFunc(slices.Clone(commits), func(c *object.Commit) bool { return !counts[c.Hash] })
	if len(list) == 0 && len(a.paths) > 0 {
		return commits, nil
	}
	return list, nil
}

// left returns the commits of a path's history, newest first, without those that led back to its previous content.
func left(path string, before entry, commits []*object.Commit) ([]*object.Commit, error) {
	type version struct {
		entry
		by *object.Commit
	}
	versions := []version{{entry: before}}
	for _, c := range slices.Backward(commits) {
		now, changed, err := changedBy(c, path)
		if err != nil {
			return nil, err
		}
		if !changed {
			continue
		}
		if i := slices.IndexFunc(versions, func(v version) bool { return v.entry == now }); i >= 0 {
			versions = versions[:i+1]
			continue
		}
		versions = append(versions, version{now, c})
	}
	var list []*object.Commit
	for _, v := range versions[1:] {
		list = append(list, v.by)
	}
	return withoutStories(list), nil
}

// withoutStories drops the changes of a story and their undo, even if a file was changed in between and never had its
// old content again.
func withoutStories(commits []*object.Commit) []*object.Commit {
	back := -1
	for i, c := range commits {
		if c.Author.Email == storyLab {
			back = i
		}
	}
	i := 0
	rest := slices.DeleteFunc(slices.Clone(commits), func(c *object.Commit) bool {
		i++
		return i-1 <= back && strings.HasSuffix(c.Author.Email, storyHost)
	})
	if len(rest) == 0 {
		return commits
	}
	return rest
}

// changedBy returns a commit's entry at a path and whether it differs from all parents.
func changedBy(c *object.Commit, path string) (entry, bool, error) {
	now, err := entryAt(c, path)
	if err != nil {
		return now, false, err
	}
	changed := true
	err = c.Parents().ForEach(func(p *object.Commit) error {
		was, err := entryAt(p, path)
		changed = changed && was != now
		return err
	})
	return now, changed && (len(c.ParentHashes) > 0 || now != entry{}), err
}

// entryAt returns a commit's file at a path, or the zero entry.
func entryAt(c *object.Commit, path string) (entry, error) {
	tree, err := c.Tree()
	for err == nil {
		name, rest, below := strings.Cut(path, "/")
		var e *object.TreeEntry
		e, err = tree.FindEntry(name)
		switch {
		case errors.Is(err, object.ErrEntryNotFound), err == nil && (e.Mode == filemode.Dir) != below:
			return entry{}, nil
		case err == nil && !below:
			return entry{e.Hash, e.Mode}, nil
		case err == nil:
			path = rest
			tree, err = tree.Tree(name)
		}
	}
	return entry{}, fmt.Errorf("commit %s: %w", c.Hash, err)
}

// others returns the forge's commits since lab's last push or pull, newest first.
func (h history) others() ([]*object.Commit, error) {
	known := map[plumbing.Hash]bool{}
	if h.last != nil {
		err := object.NewCommitPreorderIter(h.last, nil, nil).ForEach(func(c *object.Commit) error { known[c.Hash] = true; return nil })
		if err != nil {
			return nil, err
		}
	}
	var list []*object.Commit
	err := object.NewCommitIterCTime(h.head, known, nil).ForEach(func(c *object.Commit) error { list = append(list, c); return nil })
	return list, err
}

// safe rejects a push that would revert commits of others.
func (r Remote) safe(h history, tree Tree, ours, theirs files) error {
	a, err := h.ahead(tree, ours, theirs)
	if err != nil || len(a.paths) == 0 {
		return err
	}
	return r.diverged(a.commits, a.paths)
}

func (r Remote) diverged(commits []*object.Commit, lost []string) error {
	e := &lab.Error{
		Exit: lab.ExitFailed, Code: "diverged", Cure: r.cure(),
		Message: fmt.Sprintf("the forge has %s that the working tree lacks", count(len(commits), "commit")),
	}
	const most = 10
	for i, c := range commits {
		if i == most {
			e.Details = append(e.Details, fmt.Sprintf("and %d more", len(commits)-most))
			break
		}
		e.Details = append(e.Details, fmt.Sprintf("%s %s (%s)", c.Hash.String()[:7], subject(c.Message), c.Author.Name))
	}
	for i, path := range lost {
		if i == most {
			e.Details = append(e.Details, fmt.Sprintf("and %s more", count(len(lost)-most, "file")))
			break
		}
		e.Details = append(e.Details, "  "+path)
	}
	return e
}

func subject(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	return line
}

func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// Ahead returns the commits of others that the working tree lacks, newest first: a push would be rejected because of
// them. Without any, it takes one small request.
func (r Remote) Ahead(ctx context.Context, tree Tree) ([]Commit, error) {
	head, last, err := r.refs(ctx)
	if err != nil || head == last {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, shareTimeout)
	defer cancel()
	if own := tree.own(limited); own != nil {
		if commits, err := r.ahead(limited, tree, own); err == nil {
			return commits, nil
		}
	}
	return r.ahead(ctx, tree, nil)
}

func (r Remote) ahead(ctx context.Context, tree Tree, own *ownHistory) ([]Commit, error) {
	store, err := own.store()
	if err != nil {
		return nil, err
	}
	ours, err := tree.read(store)
	if err != nil {
		return nil, err
	}
	seen, err := r.fetch(ctx, store)
	if err != nil {
		return nil, err
	}
	theirs, err := filesOf(seen.head)
	if err != nil {
		return nil, err
	}
	a, err := seen.ahead(tree, ours, theirs)
	return summaries(a.commits), err
}

func summaries(commits []*object.Commit) []Commit {
	var list []Commit
	for _, c := range commits {
		list = append(list, Commit{
			Hash: c.Hash.String(), Author: c.Author.Name, When: c.Author.When, Message: strings.TrimSpace(c.Message), Lab: c.Author.Email == authorEmail,
		})
	}
	return list
}
