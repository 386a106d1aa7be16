// Package live connects scenarios to a running lab: its forge over Git, its clusters, its engine.
package live

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing/fstest" // an in-memory fs.FS; it does not import package testing
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/storage/memory"

	"homelab/lab/scenario"
)

const heads = "refs/heads/"

// authorHost is a domain that cannot receive mail.
const authorHost = "scenario.invalid"

// Git is a forge accessed over plain Git. It keeps fetched objects, so later fetches are incremental.
type Git struct {
	url  string
	auth transport.AuthMethod
	now  func() time.Time

	mu    sync.Mutex
	store *memory.Storage
}

// NewGit returns a Git for the repository at url.
func NewGit(url string, auth transport.AuthMethod) *Git {
	return &Git{url: url, auth: auth, now: time.Now, store: memory.NewStorage()}
}

func (g *Git) remote() *git.Remote {
	return git.NewRemote(g.store, &config.RemoteConfig{Name: git.DefaultRemoteName, URLs: []string{g.url}})
}

// fetch fetches all branches and returns their heads.
func (g *Git) fetch(ctx context.Context) (map[string]*object.Commit, error) {
	err := g.remote().FetchContext(ctx, &git.FetchOptions{
		RefSpecs: []config.RefSpec{"+" + heads + "*:" + heads + "*"}, Auth: g.auth, Tags: git.NoTags, Prune: true,
	})
	if err != nil && !errors.Is(err, git.NoErrAlreadyUpToDate) && !errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return nil, fmt.Errorf("fetch from the forge: %w", err)
	}
	branches := map[string]*object.Commit{}
	refs, err := g.store.IterReferences()
	if err != nil {
		return nil, err
	}
	err = refs.ForEach(func(r *plumbing.Reference) error {
		name, ok := strings.CutPrefix(r.Name().String(), heads)
		if !ok || r.Type() != plumbing.HashReference {
			return nil
		}
		branches[name], err = object.GetCommit(g.store, r.Hash())
		return err
	})
	return branches, err
}

// Branches maps branch names to tree hashes.
func (g *Git) Branches(ctx context.Context) (map[string]string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	branches, err := g.fetch(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, c := range branches {
		out[name] = c.TreeHash.String()
	}
	return out, nil
}

// Tree reads a branch.
func (g *Git) Tree(ctx context.Context, branch string) (scenario.Tree, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	branches, err := g.fetch(ctx)
	if err != nil {
		return scenario.Tree{}, err
	}
	head := branches[branch]
	if head == nil {
		return scenario.Tree{}, fmt.Errorf("the forge has no branch %s", branch)
	}
	tree, err := head.Tree()
	if err != nil {
		return scenario.Tree{}, err
	}
	files := fstest.MapFS{}
	err = tree.Files().ForEach(func(f *object.File) error {
		text, err := f.Contents()
		if err != nil {
			return err
		}
		mode, err := f.Mode.ToOSFileMode()
		if err != nil {
			return err
		}
		files[f.Name] = &fstest.MapFile{Data: []byte(text), Mode: mode & (fs.ModeType | fs.ModePerm)}
		return nil
	})
	return scenario.Tree{Commit: head.Hash.String(), Author: head.Author.Name, Message: head.Message, FS: files}, err
}

// Commit commits on top of a branch and retries on top of concurrent commits.
func (g *Git) Commit(ctx context.Context, c scenario.Change) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	const attempts = 3
	for i := 1; ; i++ {
		hash, err := g.commit(ctx, c)
		if err == nil || i == attempts || ctx.Err() != nil || !rejected(err) {
			return hash, err
		}
	}
}

// rejected reports whether the push was not a fast-forward.
func rejected(err error) bool {
	return errors.Is(err, git.ErrNonFastForwardUpdate) || strings.Contains(err.Error(), "non-fast-forward") || strings.Contains(err.Error(), "failed to update ref")
}

func (g *Git) commit(ctx context.Context, c scenario.Change) (string, error) {
	branches, err := g.fetch(ctx)
	if err != nil {
		return "", err
	}
	head := branches[c.Branch]
	if head == nil {
		head = branches[scenario.Branch]
	}
	tree, parents := &object.Tree{}, []plumbing.Hash(nil) // of an empty repository
	if head != nil {
		if tree, err = head.Tree(); err != nil {
			return "", err
		}
		parents = []plumbing.Hash{head.Hash}
	}
	root, err := g.changed(tree, c.Files)
	if err != nil {
		return "", err
	}
	who := object.Signature{Name: c.Author, Email: strings.ReplaceAll(c.Author, " ", ".") + "@" + authorHost, When: g.now()}
	commit := &object.Commit{Author: who, Committer: who, Message: strings.TrimRight(c.Message, "\n") + "\n", TreeHash: root, ParentHashes: parents}
	o := g.store.NewEncodedObject()
	if err := commit.Encode(o); err != nil {
		return "", err
	}
	hash, err := g.store.SetEncodedObject(o)
	if err != nil {
		return "", err
	}
	ref := plumbing.ReferenceName(heads + c.Branch)
	if err := g.store.SetReference(plumbing.NewHashReference(ref, hash)); err != nil {
		return "", err
	}
	err = g.remote().PushContext(ctx, &git.PushOptions{Auth: g.auth, RefSpecs: []config.RefSpec{config.RefSpec(ref + ":" + ref)}})
	if err != nil {
		return "", fmt.Errorf("push to the forge: %w", err)
	}
	return hash.String(), nil
}

// RemoveBranch deletes a branch, if it exists.
func (g *Git) RemoveBranch(ctx context.Context, name string) error {
	if name == scenario.Branch {
		return errors.New("the engines' branch cannot be removed")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	branches, err := g.fetch(ctx)
	if err != nil || branches[name] == nil {
		return err
	}
	ref := plumbing.ReferenceName(heads + name)
	err = g.remote().PushContext(ctx, &git.PushOptions{Auth: g.auth, RefSpecs: []config.RefSpec{config.RefSpec(":" + ref)}})
	if err != nil && !errors.Is(err, git.NoErrAlreadyUpToDate) {
		return fmt.Errorf("remove branch %s: %w", name, err)
	}
	return g.store.RemoveReference(ref)
}

// changed stores a tree with files changed and returns its hash. Unchanged folders are reused.
func (g *Git) changed(tree *object.Tree, files map[string]*scenario.File) (plumbing.Hash, error) {
	entries := map[string]object.TreeEntry{}
	for _, e := range tree.Entries {
		entries[e.Name] = e
	}
	below := map[string]map[string]*scenario.File{}
	for name, file := range files {
		dir, rest, nested := strings.Cut(name, "/")
		if nested {
			if below[dir] == nil {
				below[dir] = map[string]*scenario.File{}
			}
			below[dir][rest] = file
			continue
		}
		if file == nil {
			delete(entries, name)
			continue
		}
		hash, err := g.blob(file.Content)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		mode := filemode.Regular
		if file.Executable {
			mode = filemode.Executable
		}
		entries[name] = object.TreeEntry{Name: name, Mode: mode, Hash: hash}
	}
	for dir, files := range below {
		if err := g.folder(entries, dir, files); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	out := &object.Tree{Entries: slices.SortedFunc(maps.Values(entries), func(a, b object.TreeEntry) int { return strings.Compare(sortName(a), sortName(b)) })}
	o := g.store.NewEncodedObject()
	if err := out.Encode(o); err != nil {
		return plumbing.ZeroHash, err
	}
	return g.store.SetEncodedObject(o)
}

// folder changes one folder and drops it if it becomes empty: Git has no empty folders.
func (g *Git) folder(entries map[string]object.TreeEntry, dir string, files map[string]*scenario.File) error {
	sub := &object.Tree{}
	if e, there := entries[dir]; there {
		if e.Mode != filemode.Dir {
			return fmt.Errorf("%s is a file in the forge, not a folder", dir)
		}
		var err error
		if sub, err = object.GetTree(g.store, e.Hash); err != nil {
			return err
		}
	}
	hash, err := g.changed(sub, files)
	if err != nil {
		return err
	}
	t, err := object.GetTree(g.store, hash)
	if err != nil {
		return err
	}
	if len(t.Entries) == 0 {
		delete(entries, dir)
		return nil
	}
	entries[dir] = object.TreeEntry{Name: dir, Mode: filemode.Dir, Hash: hash}
	return nil
}

func (g *Git) blob(content []byte) (plumbing.Hash, error) {
	o := g.store.NewEncodedObject()
	o.SetType(plumbing.BlobObject)
	w, err := o.Writer()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	_, werr := w.Write(content)
	if err := errors.Join(werr, w.Close()); err != nil {
		return plumbing.ZeroHash, err
	}
	return g.store.SetEncodedObject(o)
}

// sortName is Git's sort key: folders as if their names ended in a slash.
func sortName(e object.TreeEntry) string {
	if e.Mode == filemode.Dir {
		return e.Name + "/"
	}
	return e.Name
}
