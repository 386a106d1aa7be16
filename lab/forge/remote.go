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

// Branch is the branch of the repository that engines follow.
const Branch = "main"

const branchRef = plumbing.ReferenceName("refs/heads/" + Branch)

// lastRef remembers in the forge itself which commit the working tree had last, by a push or a pull. It goes where the repository goes.
const lastRef = plumbing.ReferenceName("refs/lab/last")

// Remote is the forge's repository, by whatever protocol Git speaks.
type Remote struct {
	URL    string
	Branch string               // that engines follow; Branch where it is empty
	Auth   transport.AuthMethod // nil for none
	Notes  Notes                // of pulls; nil where there are none
	Say    Commands
	Now    func() time.Time
}

func (r Remote) branch() plumbing.ReferenceName {
	return plumbing.NewBranchReferenceName(cmp.Or(r.Branch, Branch))
}

// Commands are command lines as a user would type them for this lab, for cures. The zero value is for a lab that needs no flags.
type Commands struct {
	Pull string // lab git pull
	Up   string // lab up
}

func (r Remote) cure() string { return cmp.Or(r.Say.Pull, "lab git pull") }
func (r Remote) up() string   { return cmp.Or(r.Say.Up, "lab up") }

// history is what the forge has; nil for what it has not.
type history struct {
	head *object.Commit
	last *object.Commit // that the working tree had: pushed or pulled by lab
}

// layered is a repository in memory on top of another that is only read.
type layered struct {
	*memory.Storage
	below storer.EncodedObjectStorer // nil for none
}

func newStore(below storer.EncodedObjectStorer) *layered {
	return &layered{Storage: memory.NewStorage(), below: below}
}

// EncodedObject finds an object in memory, else below.
func (l *layered) EncodedObject(kind plumbing.ObjectType, h plumbing.Hash) (plumbing.EncodedObject, error) {
	o, err := l.Storage.EncodedObject(kind, h)
	if errors.Is(err, plumbing.ErrObjectNotFound) && l.below != nil {
		return l.below.EncodedObject(kind, h)
	}
	return o, err
}

// HasEncodedObject returns an error for an object that is nowhere.
func (l *layered) HasEncodedObject(h plumbing.Hash) error {
	err := l.Storage.HasEncodedObject(h)
	if err != nil && l.below != nil {
		return l.below.HasEncodedObject(h)
	}
	return err
}

// EncodedObjectSize is the size of an object.
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

// fetch brings what store lacks.
func (r Remote) fetch(ctx context.Context, store storage.Storer) (history, error) {
	return r.fetchDepth(ctx, store, 0)
}

// fetchDepth brings the latest commits alone; all of them with depth 0.
func (r Remote) fetchDepth(ctx context.Context, store storage.Storer, depth int) (history, error) {
	// Patterns, as a plain name would be an error where lab never pushed.
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

// refs are the commits of the branch that engines follow and of lab's last push or pull, zero where there is none. It takes one small request.
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

// head is the commit of the branch that engines follow, "" where there is none.
func (r Remote) head(ctx context.Context) (string, error) {
	head, _, err := r.refs(ctx)
	if err != nil || head.IsZero() {
		return "", err
	}
	return head.String(), nil
}
