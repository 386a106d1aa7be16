package forge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"homelab/lab"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Branch is the branch of the repository that engines follow.
const Branch = "main"

const (
	branchRef = plumbing.ReferenceName("refs/heads/" + Branch)
	// lastRef remembers in the forge itself which commit lab pushed last: what the working tree was then. It goes where the repository goes.
	lastRef = plumbing.ReferenceName("refs/lab/last")
)

// Who commits: an address that reaches nobody.
const (
	authorHost  = "lab.invalid"
	authorEmail = "lab@" + authorHost
)

// PushResult is what a push did.
type PushResult struct {
	Commit  string   // the forge's head afterwards, 40 hex digits
	Changed []string // paths that the push changed there, sorted
	Pushed  bool     // false when the forge already held the working tree
}

// Remote is the forge's repository, by whatever protocol Git speaks.
type Remote struct {
	URL  string
	Auth transport.AuthMethod // nil for none
	Cure string               // what a person does when others' commits are in the way
	Now  func() time.Time
}

// Push commits the working tree on top of the forge's branch. Others' commits there are never lost: a push is refused unless the working tree has all
// that they changed. It never forces; a commit that comes in between is seen by the server.
func (r Remote) Push(ctx context.Context, tree Tree, message string) (PushResult, error) {
	store := memory.NewStorage()
	ours, err := tree.read(store)
	if err != nil {
		return PushResult{}, err
	}
	root, err := ours.write(store)
	if err != nil {
		return PushResult{}, err
	}
	seen, err := r.fetch(ctx, store)
	if err != nil {
		return PushResult{}, err
	}
	if seen.head != nil && seen.head.TreeHash == root {
		return PushResult{Commit: seen.head.Hash.String()}, nil
	}
	theirs, err := filesOf(seen.head)
	if err != nil {
		return PushResult{}, err
	}
	if err := r.safe(seen, tree, ours, theirs); err != nil {
		return PushResult{}, err
	}
	commit, err := seen.commit(store, root, message, r.Now())
	if err != nil {
		return PushResult{}, err
	}
	if err := r.send(ctx, store, commit); err != nil {
		return PushResult{}, err
	}
	return PushResult{Commit: commit.String(), Changed: changed(theirs, ours), Pushed: true}, nil
}

// Diff is the paths that a push would change, sorted.
func (r Remote) Diff(ctx context.Context, tree Tree) ([]string, error) {
	store := memory.NewStorage()
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
	return changed(theirs, ours), nil
}

// history is what the forge has; nil for what it has not.
type history struct {
	head *object.Commit
	last *object.Commit // pushed by lab
}

func (r Remote) at(store *memory.Storage) *git.Remote {
	return git.NewRemote(store, &config.RemoteConfig{Name: git.DefaultRemoteName, URLs: []string{r.URL}})
}

func (r Remote) fetch(ctx context.Context, store *memory.Storage) (history, error) {
	// Patterns, as a plain name would be an error where lab never pushed.
	specs := []config.RefSpec{"+refs/heads/" + Branch + "*:refs/heads/" + Branch + "*", "+refs/lab/*:refs/lab/*"}
	err := r.at(store).FetchContext(ctx, &git.FetchOptions{RefSpecs: specs, Auth: r.Auth, Tags: git.NoTags})
	switch {
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		return history{}, nil
	case err != nil && !errors.Is(err, git.NoErrAlreadyUpToDate):
		return history{}, fmt.Errorf("fetch from the forge: %w", err)
	}
	var h history
	for name, to := range map[plumbing.ReferenceName]**object.Commit{branchRef: &h.head, lastRef: &h.last} {
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

// head is the commit of the branch that engines follow, "" where there is none.
func (r Remote) head(ctx context.Context) (string, error) {
	refs, err := r.at(memory.NewStorage()).ListContext(ctx, &git.ListOptions{Auth: r.Auth})
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("head of the forge: %w", err)
	}
	for _, ref := range refs {
		if ref.Name() == branchRef {
			return ref.Hash().String(), nil
		}
	}
	return "", nil
}

// safe refuses a push that would undo what others committed. Their changes are those since lab's last push, or since the commit that the person pulled.
func (r Remote) safe(h history, tree Tree, ours, theirs files) error {
	if h.head == nil || h.last != nil && h.last.Hash == h.head.Hash {
		return nil
	}
	if tree.contains(h.head.Hash) {
		return nil
	}
	base, err := filesOf(h.last)
	if err != nil {
		return err
	}
	var lost []string
	for _, path := range changed(base, theirs) {
		if ours[path] != theirs[path] {
			lost = append(lost, path)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	commits, err := h.others()
	if err != nil {
		return err
	}
	return r.diverged(commits, lost)
}

func (r Remote) diverged(commits []*object.Commit, lost []string) error {
	e := &lab.Error{
		Exit: lab.ExitFailed, Code: "diverged", Cure: r.Cure,
		Message: fmt.Sprintf("the forge has %s that the working tree lacks", count(len(commits), "commit")),
	}
	const most = 10
	for i, c := range commits {
		if i == most {
			e.Details = append(e.Details, fmt.Sprintf("and %d more", len(commits)-most))
			break
		}
		subject, _, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
		e.Details = append(e.Details, fmt.Sprintf("%s %s (%s)", c.Hash.String()[:7], subject, c.Author.Name))
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

func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// others are the commits of the forge that lab's last push did not have, newest first.
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

func (h history) commit(store *memory.Storage, root plumbing.Hash, message string, now time.Time) (plumbing.Hash, error) {
	who := object.Signature{Name: "lab", Email: authorEmail, When: now}
	c := &object.Commit{Author: who, Committer: who, Message: strings.TrimRight(message, "\n") + "\n", TreeHash: root}
	if h.head != nil {
		c.ParentHashes = []plumbing.Hash{h.head.Hash}
	}
	o := store.NewEncodedObject()
	if err := c.Encode(o); err != nil {
		return plumbing.ZeroHash, err
	}
	return store.SetEncodedObject(o)
}

func (r Remote) send(ctx context.Context, store *memory.Storage, commit plumbing.Hash) error {
	if err := store.SetReference(plumbing.NewHashReference(branchRef, commit)); err != nil {
		return err
	}
	err := r.at(store).PushContext(ctx, &git.PushOptions{
		Auth: r.Auth, Atomic: true,
		// lastRef is lab's own and is only remembered there: it may jump when others rewrote the branch.
		RefSpecs: []config.RefSpec{config.RefSpec(branchRef + ":" + branchRef), config.RefSpec("+" + branchRef + ":" + lastRef)},
	})
	if err != nil {
		return fmt.Errorf("push to the forge: %w", err)
	}
	return nil
}

// contains says whether the repository of the working tree has the commit in the history of what is checked out: the person pulled it.
func (t Tree) contains(hash plumbing.Hash) bool {
	if t.Dir == "" {
		return false
	}
	repo, err := git.PlainOpenWithOptions(t.Dir, &git.PlainOpenOptions{DetectDotGit: true, EnableDotGitCommonDir: true})
	if err != nil {
		return false // not in a repository, or in one that go-git cannot read: the files themselves decide
	}
	ref, err := repo.Head()
	if err != nil {
		return false
	}
	head, err := repo.CommitObject(ref.Hash())
	if err != nil {
		return false
	}
	pulled, err := repo.CommitObject(hash)
	if err != nil {
		return false
	}
	ok, err := pulled.IsAncestor(head)
	return err == nil && ok
}
