package estate

import (
	"fmt"
	"io/fs"

	"homelab/lab"
	"homelab/lab/bridge"
)

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
