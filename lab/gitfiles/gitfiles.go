// Package gitfiles reads references and files of a clone. It is read-only.
package gitfiles

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/Masterminds/semver/v3"
	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Clone is a Git repository, on disk or in memory.
type Clone struct {
	repo *git.Repository
	mu   sync.Mutex // go-git's storage is not safe for concurrent use

	blobs map[plumbing.Hash][]byte // small ones that have been read: revisions share them
	kept  int                      // bytes of them
}

// Open opens the clone with root dir, possibly a linked work tree or submodule. A shallow clone is an error: it cannot be
// pushed.
func Open(dir string) (*Clone, error) {
	repo, err := git.PlainOpenWithOptions(dir, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if errors.Is(err, git.ErrRepositoryNotExists) {
		return nil, errors.New("not a Git repository")
	}
	if err != nil {
		return nil, err
	}
	shallow, err := repo.Storer.Shallow()
	if err == nil && len(shallow) > 0 {
		err = errors.New("the clone is shallow: run git fetch --unshallow --tags")
	}
	if err != nil {
		return nil, err
	}
	return &Clone{repo: repo, blobs: map[plumbing.Hash][]byte{}}, nil
}

// Prefixes of references.
const (
	heads  = "refs/heads/"
	tags   = "refs/tags/"
	origin = "refs/remotes/origin/"
)

// Reference is a branch or tag of a clone, named as upstream.
type Reference struct {
	Name string // refs/heads/NAME or refs/tags/NAME
	From string // in the clone: refs/remotes/origin/NAME for a branch of origin only
	Hash string // of a commit, or of an annotated tag
}

// References returns the clone's branches and tags, sorted by name. It includes branches of origin: a fresh clone has only
// one local branch.
func (c *Clone) References() ([]Reference, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	iter, err := c.repo.References()
	if err != nil {
		return nil, err
	}
	found := map[string]Reference{}
	err = iter.ForEach(func(ref *plumbing.Reference) error {
		from := ref.Name().String()
		name := from
		if branch, ok := strings.CutPrefix(from, origin); ok {
			name = heads + branch
		}
		if ref.Type() != plumbing.HashReference || !strings.HasPrefix(name, heads) && !strings.HasPrefix(name, tags) {
			return nil // origin/HEAD is symbolic
		}
		if _, own := found[name]; !own || from == name {
			found[name] = Reference{Name: name, From: from, Hash: ref.Hash().String()}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Reference) int { return strings.Compare(a.Name, b.Name) }), nil
}

// commitHash matches a hash, possibly abbreviated.
var commitHash = regexp.MustCompile(`^[0-9a-f]{7,40}$`)

// Commit resolves a revision like Argo CD: a branch, a tag, a version constraint, or a commit.
func (c *Clone) Commit(revision string) (string, error) {
	refs, err := c.References()
	if err != nil {
		return "", err
	}
	for _, prefix := range []string{"", heads, tags} {
		for _, ref := range refs {
			if ref.Name == prefix+revision {
				return c.peel(ref.Hash)
			}
		}
	}
	if ref, ok := newest(refs, revision); ok {
		return c.peel(ref.Hash)
	}
	if commitHash.MatchString(revision) {
		return c.peel(revision)
	}
	return "", fmt.Errorf("no branch, tag or commit %s", revision)
}

// newest returns the tag with the highest version that satisfies a constraint.
func newest(refs []Reference, constraint string) (best Reference, ok bool) {
	if _, err := semver.NewVersion(constraint); err == nil {
		return best, false
	}
	meets, err := semver.NewConstraint(constraint)
	if err != nil {
		return best, false
	}
	var highest *semver.Version
	for _, ref := range refs {
		tag, is := strings.CutPrefix(ref.Name, tags)
		if v, err := semver.NewVersion(tag); is && err == nil && meets.Check(v) && (highest == nil || v.GreaterThan(highest)) {
			best, highest = ref, v
		}
	}
	return best, highest != nil
}

// peel returns the commit of an object.
func (c *Clone) peel(hash string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, err := c.repo.ResolveRevision(plumbing.Revision(hash))
	if err != nil {
		return "", fmt.Errorf("no commit %s", hash)
	}
	if tag, err := c.repo.TagObject(*h); err == nil {
		commit, err := tag.Commit()
		if err != nil {
			return "", fmt.Errorf("tag %s: %w", tag.Name, err)
		}
		return commit.Hash.String(), nil
	}
	return h.String(), nil
}

// Follows reports whether a commit has another in its history.
func (c *Clone) Follows(commit, other string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	later, err := c.repo.CommitObject(plumbing.NewHash(commit))
	if err != nil {
		return false
	}
	earlier, err := c.repo.CommitObject(plumbing.NewHash(other))
	if err != nil {
		return false
	}
	is, err := earlier.IsAncestor(later)
	return err == nil && is
}

// Reached returns the commits and annotated tags that the clone's references have, as far as they can be read.
func (c *Clone) Reached() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	reached, seen := map[string]bool{}, map[plumbing.Hash]bool{}
	refs, err := c.repo.References()
	if err != nil {
		return nil
	}
	_ = refs.ForEach(func(ref *plumbing.Reference) error {
		hash, err := c.repo.ResolveRevision(plumbing.Revision(ref.Name()))
		if err != nil {
			return nil //nolint:nilerr // others may be readable
		}
		reached[ref.Hash().String()] = true
		if head, err := c.repo.CommitObject(*hash); err == nil {
			_ = object.NewCommitPreorderIter(head, seen, nil).ForEach(func(commit *object.Commit) error {
				reached[commit.Hash.String()], seen[commit.Hash] = true, true
				return nil
			})
		}
		return nil
	})
	return reached
}

func (c *Clone) tree(commit string) (*object.Tree, error) {
	o, err := c.repo.CommitObject(plumbing.NewHash(commit))
	if err != nil {
		return nil, err
	}
	return o.Tree()
}
