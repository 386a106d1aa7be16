package forge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/storage"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Branch is the branch that engines follow.
const Branch = "main"

const branchRef = plumbing.ReferenceName("refs/heads/" + Branch)

// lastRef records the commit that the working tree last had, by push or pull. It is stored in the forge, so that it
// moves with the repository.
const lastRef = plumbing.ReferenceName("refs/lab/last")

// Remote is the forge's repository over Git.
type Remote struct {
	URL      string
	Branch   string               // that engines follow; default Branch
	Auth     transport.AuthMethod // may be nil
	Notes    Notes                // of pulls; may be nil
	Commands Commands
	Now      func() time.Time

	// Unlock removes reference locks of a killed git and reports whether there were any; may be nil.
	Unlock func(ctx context.Context) (bool, error)
}

func (r Remote) branch() plumbing.ReferenceName {
	return plumbing.NewBranchReferenceName(cmp.Or(r.Branch, Branch))
}

// Commands are command lines for cures. The zero value is for a lab that needs no flags.
type Commands struct {
	Pull string // default: lab git pull
	Up   string // default: lab up
}

func (r Remote) cure() string { return cmp.Or(r.Commands.Pull, "lab git pull") }
func (r Remote) up() string   { return cmp.Or(r.Commands.Up, "lab up") }

// history holds the commits of the forge; nil if missing.
type history struct {
	head *object.Commit
	last *object.Commit // last commit pushed or pulled by lab
}

// layered is an in-memory repository on top of a read-only one.
type layered struct {
	*memory.Storage
	below storer.EncodedObjectStorer // may be nil
}

func newStore(below storer.EncodedObjectStorer) *layered {
	return &layered{Storage: memory.NewStorage(), below: below}
}

// EncodedObject looks in memory, then below.
func (l *layered) EncodedObject(kind plumbing.ObjectType, h plumbing.Hash) (plumbing.EncodedObject, error) {
	o, err := l.Storage.EncodedObject(kind, h)
	if errors.Is(err, plumbing.ErrObjectNotFound) && l.below != nil {
		return l.below.EncodedObject(kind, h)
	}
	return o, err
}

// HasEncodedObject looks in memory, then below.
func (l *layered) HasEncodedObject(h plumbing.Hash) error {
	err := l.Storage.HasEncodedObject(h)
	if err != nil && l.below != nil {
		return l.below.HasEncodedObject(h)
	}
	return err
}

// EncodedObjectSize looks in memory, then below.
func (l *layered) EncodedObjectSize(h plumbing.Hash) (int64, error) {
	n, err := l.Storage.EncodedObjectSize(h)
	if err != nil && l.below != nil {
		return l.below.EncodedObjectSize(h)
	}
	return n, err
}

func (r Remote) at(store storage.Storer) *git.Remote {
	return git.NewRemote(store, &config.RemoteConfig{Name: git.DefaultRemoteName, URLs: []string{r.URL}})
}

// fetch fetches what store lacks.
func (r Remote) fetch(ctx context.Context, store storage.Storer) (history, error) {
	return r.fetchDepth(ctx, store, 0)
}

// fetchDepth fetches depth commits; 0 for all.
func (r Remote) fetchDepth(ctx context.Context, store storage.Storer, depth int) (history, error) {
	// Patterns: a plain name would be an error if lab never pushed.
	specs := []config.RefSpec{config.RefSpec(fmt.Sprintf("+%[1]s*:%[1]s*", r.branch())), "+refs/lab/*:refs/lab/*"}
	err := r.at(store).FetchContext(ctx, &git.FetchOptions{RefSpecs: specs, Auth: r.Auth, Tags: git.NoTags, Depth: depth})
	switch {
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		return history{}, nil
	case err != nil && !errors.Is(err, git.NoErrAlreadyUpToDate):
		return history{}, fmt.Errorf("fetch from the forge: %w", err)
	}
	var h history
	for name, to := range map[plumbing.ReferenceName]**object.Commit{r.branch(): &h.head, lastRef: &h.last} {
		ref, err := store.Reference(name)
		if errors.Is(err, plumbing.ErrReferenceNotFound) {
			continue
		}
		if err != nil {
			return history{}, err
		}
		if *to, err = object.GetCommit(store, ref.Hash()); err != nil {
			return history{}, err
		}
	}
	return h, nil
}

// refs returns the heads of branch and lastRef, zero if missing, with one small request.
func (r Remote) refs(ctx context.Context) (head, last plumbing.Hash, err error) {
	list, err := r.at(memory.NewStorage()).ListContext(ctx, &git.ListOptions{Auth: r.Auth})
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return head, last, nil
	}
	if err != nil {
		return head, last, fmt.Errorf("head of the forge: %w", err)
	}
	for _, ref := range list {
		switch ref.Name() {
		case r.branch():
			head = ref.Hash()
		case lastRef:
			last = ref.Hash()
		}
	}
	return head, last, nil
}

// head returns the head of the branch, or "".
func (r Remote) head(ctx context.Context) (string, error) {
	head, _, err := r.refs(ctx)
	if err != nil || head.IsZero() {
		return "", err
	}
	return head.String(), nil
}
