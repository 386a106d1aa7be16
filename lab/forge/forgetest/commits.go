package forgetest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"homelab/lab"
	"homelab/lab/forge"
)

// commits is a branch in memory: it knows whole commits, and nothing of Git. A zero value has none.
type commits struct {
	list []version // oldest first
	last int       // how many of them the working tree has, as of lab's last push or pull

	branches []forge.ForeignCommit // of others, a commit each
}

type version struct {
	forge.Commit
	files map[string]string
}

// files returns the files at the head.
func (c *commits) files() map[string]string {
	if len(c.list) == 0 {
		return nil
	}
	return c.list[len(c.list)-1].files
}

// base returns the files that the working tree had.
func (c *commits) base() map[string]string {
	if c.last == 0 {
		return nil
	}
	return c.list[c.last-1].files
}

// head returns the newest commit, or "".
func (c *commits) head() string {
	if len(c.list) == 0 {
		return ""
	}
	return c.list[len(c.list)-1].Hash
}

// with returns the files at the head with others: name, text, name, text, ...
func (c *commits) with(pairs []string) map[string]string {
	files := map[string]string{}
	maps.Copy(files, c.files())
	for pair := range slices.Chunk(pairs, 2) {
		files[pair[0]] = pair[1]
	}
	return files
}

// add commits files.
func (c *commits) add(author, message string, files map[string]string) {
	c.list = append(c.list, version{c.commit(author, message, files), maps.Clone(files)})
}

// branch commits files to another branch.
func (c *commits) branch(author, branch, message string, files map[string]string) {
	c.branches = append(slices.Clone(c.branches), forge.ForeignCommit{Commit: c.commit(author, message, files), Repository: forge.Repository, Branch: branch, Files: differs(c.files(), files)})
}

func (c *commits) commit(author, message string, files map[string]string) forge.Commit {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %d %v", c.head(), author, message, len(c.list), files))
	return forge.Commit{Hash: hex.EncodeToString(sum[:20]), Author: author, When: time.Now(), Message: message, Lab: author == "lab"}
}

// ahead returns others' changes that the working tree lacks: paths and commits, newest first.
func (c *commits) ahead(ours map[string]string) (paths []string, by []forge.Commit) {
	for _, path := range differs(c.base(), c.files()) {
		if !same(ours, c.files(), path) {
			paths = append(paths, path)
		}
	}
	for _, f := range c.foreign() {
		if slices.ContainsFunc(f.Files, func(path string) bool { return slices.Contains(paths, path) }) {
			by = append(by, f.Commit)
		}
	}
	return paths, by
}

// foreign returns the commits of others since lab's last push or pull, newest first.
func (c *commits) foreign() []forge.ForeignCommit {
	var list []forge.ForeignCommit
	for i := len(c.list) - 1; i >= c.last; i-- {
		var before map[string]string
		if i > 0 {
			before = c.list[i-1].files
		}
		list = append(list, forge.ForeignCommit{Commit: c.list[i].Commit, Repository: forge.Repository, Branch: forge.Branch, Files: differs(before, c.list[i].files)})
	}
	return list
}

func (c *commits) diverged(ours map[string]string) error {
	paths, by := c.ahead(ours)
	if len(paths) == 0 {
		return nil
	}
	return &lab.Error{Exit: lab.ExitFailed, Code: "diverged", Message: fmt.Sprintf("the forge has %d commits that the working tree lacks", len(by)), Details: paths, Cure: "lab git pull"}
}

// take returns a copy.
func (c *commits) take() commits {
	return commits{list: slices.Clone(c.list), last: c.last, branches: slices.Clone(c.branches)}
}

// differs returns the paths at which two trees differ, sorted.
func differs(a, b map[string]string) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, b)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(path string) bool { return same(a, b, path) })
}

func same(a, b map[string]string, path string) bool {
	x, inA := a[path]
	y, inB := b[path]
	return inA == inB && x == y
}

// read returns the files of a working tree.
func read(tree forge.Tree) (map[string]string, error) {
	found := map[string]string{}
	from := tree.Listed()
	err := fs.WalkDir(from, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(from, name)
		found[name] = string(text)
		return err
	})
	return found, err
}

// write writes files of the head into a working tree.
func (c *commits) write(dir string, paths []string) error {
	for _, path := range paths {
		file := filepath.Join(dir, filepath.FromSlash(path))
		text, there := c.files()[path]
		if !there {
			if err := os.Remove(file); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
