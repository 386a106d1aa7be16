package forge

import (
	"context"
	"fmt"
	"io/fs"

	"homelab/lab/gitfiles"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Estate waits until the forge answers and returns the files at the head of the branch, or nil without commits.
func (g *Gitea) Estate(ctx context.Context) (files fs.FS, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s, err := g.running(ctx)
	if err != nil {
		return nil, err
	}
	if err := g.awaitHealth(ctx, s); err != nil {
		return nil, err
	}
	err = g.call(ctx, "the files of the estate's repository", gitLimit, func(ctx context.Context, s State) error {
		files, err = g.remote(s).Files(ctx)
		return err
	})
	return files, err
}

// Files returns the files at the head of the branch, or nil without commits.
func (r Remote) Files(ctx context.Context) (fs.FS, error) {
	store := memory.NewStorage()
	h, err := r.fetchDepth(ctx, store, 1)
	if err != nil || h.head == nil {
		return nil, err
	}
	repo, err := git.Init(store, nil)
	if err != nil {
		return nil, fmt.Errorf("files of the forge: %w", err)
	}
	files, err := gitfiles.Of(repo).Files(h.head.Hash.String())
	if err != nil {
		return nil, fmt.Errorf("files of the forge: %w", err)
	}
	return files, nil
}
