package estate

import (
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"homelab/lab"
	"homelab/lab/bridge"
	"homelab/lab/gitfiles"
)

// revisions are mounted repositories at revisions that are not checked out.
type revisions struct {
	mu    sync.Mutex // sets are expanded in parallel
	found []*lab.Repository
}

func (r *revisions) list() []*lab.Repository {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.found)
}

func (r *revisions) add(found *lab.Repository) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found = append(r.found, found)
}

// revisions returns a function that opens a mounted clone at another revision. Positions in it are FOLDER@REVISION/FILE.
func (l *loader) revisions(r lab.Repository) func(string) (*lab.Repository, error) {
	type outcome struct {
		at  *lab.Repository
		err error
	}
	open := sync.OnceValues(func() (*gitfiles.Clone, error) { return gitfiles.Open(r.Path) })
	read := func(revision string) (*lab.Repository, error) {
		clone, err := open()
		if err != nil {
			return nil, err
		}
		commit, err := clone.Commit(revision)
		if err != nil {
			return nil, fmt.Errorf("%w: try git -C %s fetch --tags origin", err, r.Dir)
		}
		at := r
		at.Dir, at.Path, at.Branch, at.Revisions = r.Dir+"@"+revision, "", revision, nil
		if at.FS, err = clone.Files(commit); err != nil {
			return nil, err
		}
		l.others.add(&at)
		return &at, nil
	}
	var mu sync.Mutex
	known := map[string]outcome{}
	return func(revision string) (*lab.Repository, error) {
		mu.Lock()
		defer mu.Unlock()
		o, ok := known[revision]
		if !ok {
			if o.at, o.err = read(revision); o.err != nil {
				o.err = fmt.Errorf("%s at %s cannot be read: %w", r.Dir, revision, o.err)
			}
			known[revision] = o
		}
		return o.at, o.err
	}
}

// tree returns the files of r at a revision, or the estate's if r is nil.
func (l *loader) tree(r *lab.Repository, revision string) fs.FS {
	if r == nil {
		return l.fsys
	}
	if at, err := r.Of(revision); err == nil {
		return at.FS
	}
	return r.FS
}

// unreadableSource returns why a source cannot be read at its revision, or "".
func (l *loader) unreadableSource(address, revision string) string {
	r, ok := l.source(address)
	switch {
	case !ok:
		return ""
	case r == nil:
		return missingRevision(l.estate, revision)
	}
	if _, err := r.Of(revision); err != nil {
		return err.Error()
	}
	return ""
}

// missingRevision returns why the forge does not have the estate at a revision, or "".
func missingRevision(e *lab.Estate, revision string) string {
	own := lab.Repository{Branch: bridge.InputsOf(e).RepoRevision}
	if own.Has(revision) {
		return ""
	}
	return fmt.Sprintf("the forge has only branch %s of the estate, not %s", own.Branch, revision)
}
