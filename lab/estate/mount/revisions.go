package mount

import (
	"fmt"
	"slices"
	"sync"

	"homelab/lab"
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
func (m *Mounts) revisions(r lab.Repository) func(string) (*lab.Repository, error) {
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
		m.others.add(&at)
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
