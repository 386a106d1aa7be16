// Package scenariotest provides an in-memory lab for tests of scenarios: a forge, clusters, and an engine that
// reconciles the default estate's addons. Its contract suites also run on the real implementations.
package scenariotest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"testing/fstest"

	"homelab/lab/scenario"
)

type Commit struct {
	Hash, Author, Message string
	files                 map[string]*scenario.File
}

// Tree returns the tree hash.
func (c Commit) Tree() string { return hashOf(c.files, "") }

// Forge is an in-memory forge. It blocks while its gate is shut.
type Forge struct {
	Gate

	mu       sync.Mutex
	branches map[string][]Commit
	pushed   func()
}

// NewForge returns a forge with the estate's files on the engines' branch.
func NewForge(estate fs.FS) (*Forge, error) {
	files := map[string]*scenario.File{}
	for _, dir := range []string{"addons", "clusters", "environments", "scenarios"} {
		err := fs.WalkDir(estate, dir, func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			data, err := fs.ReadFile(estate, name)
			files[name] = &scenario.File{Content: data}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	f := &Forge{branches: map[string][]Commit{}, pushed: func() {}}
	f.branches[scenario.Branch] = []Commit{{Hash: hashOf(files, "0"), Author: "lab", Message: "estate", files: files}}
	return f, nil
}

// hashOf returns a tree hash or, with a salt, a commit hash.
func hashOf(files map[string]*scenario.File, salt string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%s %t %d\n", name, files[name].Executable, len(files[name].Content))
		h.Write(files[name].Content)
	}
	h.Write([]byte(salt))
	return hex.EncodeToString(h.Sum(nil))[:40]
}

// Tree reads a branch.
func (f *Forge) Tree(ctx context.Context, branch string) (scenario.Tree, error) {
	if err := f.through(ctx); err != nil {
		return scenario.Tree{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	commits, ok := f.branches[branch]
	if !ok {
		return scenario.Tree{}, fmt.Errorf("no branch %s", branch)
	}
	head := commits[len(commits)-1]
	tree := fstest.MapFS{}
	for name, file := range head.files {
		mode := fs.FileMode(0o644)
		if file.Executable {
			mode = 0o755
		}
		tree[name] = &fstest.MapFile{Data: file.Content, Mode: mode}
	}
	return scenario.Tree{Commit: head.Hash, Author: head.Author, Message: head.Message, FS: tree}, nil
}

// Commit commits on top of a branch.
func (f *Forge) Commit(ctx context.Context, c scenario.Change) (string, error) {
	if err := f.through(ctx); err != nil {
		return "", err
	}
	f.mu.Lock()
	commits, ok := f.branches[c.Branch]
	if !ok {
		commits = slices.Clone(f.branches[scenario.Branch])
	}
	files := map[string]*scenario.File{}
	if n := len(commits); n > 0 {
		maps.Copy(files, commits[n-1].files)
	}
	for name, file := range c.Files {
		if file == nil {
			delete(files, name)
		} else {
			files[name] = file
		}
	}
	hash := hashOf(files, fmt.Sprint(len(commits)))
	f.branches[c.Branch] = append(commits, Commit{Hash: hash, Author: c.Author, Message: c.Message, files: files})
	pushed := f.pushed
	f.mu.Unlock()
	pushed()
	return hash, nil
}

// heads returns the latest commits of all branches but the engines'.
func (f *Forge) heads() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, name := range slices.Sorted(maps.Keys(f.branches)) {
		if commits := f.branches[name]; name != scenario.Branch {
			list = append(list, name+" "+commits[len(commits)-1].Hash)
		}
	}
	return list
}

// Branches maps branch names to tree hashes.
func (f *Forge) Branches(ctx context.Context) (map[string]string, error) {
	if err := f.through(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]string{}
	for name, commits := range f.branches {
		out[name] = hashOf(commits[len(commits)-1].files, "")
	}
	return out, nil
}

// RemoveBranch deletes a branch.
func (f *Forge) RemoveBranch(ctx context.Context, name string) error {
	if err := f.through(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.branches, name)
	return nil
}

// treeOf returns the tree hash of a commit on the engines' branch.
func (f *Forge) treeOf(commit string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	commits := f.branches[scenario.Branch]
	return commits[slices.IndexFunc(commits, func(c Commit) bool { return c.Hash == commit })].Tree()
}

// Log returns the commits of a branch, oldest first.
func (f *Forge) Log(branch string) []Commit {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.branches[branch])
}
