package gitfiles

import (
	"fmt"
	"io"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/memory"
)

// OfPack returns a clone in memory that has the objects of a packfile, and no references. Commits are read by their hashes; their parents may be missing.
func OfPack(r io.Reader) (*Clone, error) {
	storage := memory.NewStorage()
	repo, err := git.Init(storage, nil)
	if err == nil {
		err = packfile.UpdateObjectStorage(storage, r)
	}
	if err != nil {
		return nil, fmt.Errorf("objects of git: %w", err)
	}
	return &Clone{repo: repo, blobs: map[plumbing.Hash][]byte{}}, nil
}
