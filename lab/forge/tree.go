package forge

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"homelab/lab"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Tree is the working tree of an estate.
type Tree struct {
	FS  fs.FS
	Dir string // absolute path of FS on disk; empty for the embedded estate
}

// entry is Git's view of a file.
type entry struct {
	Hash plumbing.Hash
	Mode filemode.FileMode
}

// files maps slash-separated paths to entries.
type files map[string]entry

// read stores all files that Git would commit as blobs. It skips files ignored by .gitignore and .git/info/exclude, including those of an enclosing repository, unless
// they are tracked, and nested repositories. Line endings are kept.
func (t Tree) read(store storer.EncodedObjectStorer) (files, error) {
	patterns, base, err := t.outerPatterns()
	if err != nil {
		return nil, err
	}
	found := files{}
	if err := t.walk(store, found, t.kept(base), patterns, base, "."); err != nil {
		return nil, err
	}
	return found, nil
}

// kept returns the tracked files and their folders, which no pattern ignores. There are none without a repository whose index can be read.
func (t Tree) kept(base []string) map[string]bool {
	root := t.repository()
	if root == "" {
		return nil
	}
	repo, err := git.PlainOpenWithOptions(root, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if err != nil {
		return nil
	}
	index, err := repo.Storer.Index()
	if err != nil {
		return nil
	}
	kept := map[string]bool{}
	for _, e := range index.Entries {
		name, within := strings.CutPrefix("/"+e.Name, path.Join("/", path.Join(base...)))
		for name = strings.TrimPrefix(name, "/"); within && name != "." && name != "" && !kept[name]; name = path.Dir(name) {
			kept[name] = true
		}
	}
	return kept
}

// hash returns the tree hash.
func (t Tree) hash() (string, error) {
	store := memory.NewStorage()
	found, err := t.read(store)
	if err != nil {
		return "", err
	}
	root, err := found.write(store)
	return root.String(), err
}

// walk reads one folder. base is the estate's path in its repository, to which patterns are relative.
func (t Tree) walk(store storer.EncodedObjectStorer, found files, kept map[string]bool, patterns []gitignore.Pattern, base []string, dir string) error {
	entries, err := fs.ReadDir(t.FS, dir)
	if err != nil {
		return fmt.Errorf("read %s: %w", dir, err)
	}
	if dir != "." && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ".git" }) {
		return nil // nested repository
	}
	within := slices.Clone(base)
	if dir != "." {
		within = append(within, strings.Split(dir, "/")...)
	}
	text, err := fs.ReadFile(t.FS, path.Join(dir, ignoreFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unreadable(path.Join(dir, ignoreFile), err)
	}
	patterns = append(slices.Clip(patterns), parseIgnore(text, within)...)
	ignored := gitignore.NewMatcher(patterns)
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.Name() == ".git" || !kept[name] && ignored.Match(append(slices.Clip(within), e.Name()), e.IsDir()) {
			continue
		}
		if !utf8.ValidString(name) {
			return &lab.Error{
				Exit: lab.ExitInvalid, Code: "unsafe_path", Message: fmt.Sprintf("the estate has a file whose name is not UTF-8: %q", name), Cure: "rename it, or have Git ignore it",
			}
		}
		if e.IsDir() {
			if err := t.walk(store, found, kept, patterns, base, name); err != nil {
				return err
			}
			continue
		}
		mode, content, err := t.content(name, e)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if mode == filemode.Empty { // a socket or device
			continue
		}
		hash, err := put(store, plumbing.BlobObject, content)
		if err != nil {
			return err
		}
		found[name] = entry{hash, mode}
	}
	return nil
}

func (t Tree) content(name string, e fs.DirEntry) (filemode.FileMode, []byte, error) {
	switch {
	case e.Type()&fs.ModeSymlink != 0:
		target, err := fs.ReadLink(t.FS, name)
		return filemode.Symlink, []byte(filepath.ToSlash(target)), err
	case !e.Type().IsRegular():
		return filemode.Empty, nil, nil
	}
	info, err := e.Info()
	if err != nil {
		return filemode.Empty, nil, err
	}
	mode := filemode.Regular
	if info.Mode()&0o111 != 0 {
		mode = filemode.Executable
	}
	content, err := fs.ReadFile(t.FS, name)
	return mode, content, err
}

func put(store storer.EncodedObjectStorer, kind plumbing.ObjectType, content []byte) (plumbing.Hash, error) {
	o := store.NewEncodedObject()
	o.SetType(kind)
	w, err := o.Writer()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	_, werr := w.Write(content)
	if err := errors.Join(werr, w.Close()); err != nil {
		return plumbing.ZeroHash, err
	}
	return store.SetEncodedObject(o)
}

// write stores the tree objects and returns the root's hash.
func (f files) write(store storer.EncodedObjectStorer) (plumbing.Hash, error) {
	here := map[string]object.TreeEntry{}
	below := map[string]files{}
	for name, e := range f {
		dir, rest, nested := strings.Cut(name, "/")
		if !nested {
			here[name] = object.TreeEntry{Name: name, Mode: e.Mode, Hash: e.Hash}
			continue
		}
		if below[dir] == nil {
			below[dir] = files{}
		}
		below[dir][rest] = e
	}
	for dir, sub := range below {
		hash, err := sub.write(store)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		here[dir] = object.TreeEntry{Name: dir, Mode: filemode.Dir, Hash: hash}
	}
	tree := &object.Tree{Entries: slices.Collect(maps.Values(here))}
	slices.SortFunc(tree.Entries, func(a, b object.TreeEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	o := store.NewEncodedObject()
	if err := tree.Encode(o); err != nil {
		return plumbing.ZeroHash, err
	}
	return store.SetEncodedObject(o)
}

// sortName is Git's sort key: folders as if their names ended in a slash.
func sortName(e object.TreeEntry) string {
	if e.Mode == filemode.Dir {
		return e.Name + "/"
	}
	return e.Name
}

// filesOf flattens a commit's tree; nil has no files.
func filesOf(c *object.Commit) (files, error) {
	if c == nil {
		return files{}, nil
	}
	tree, err := c.Tree()
	if err != nil {
		return nil, err
	}
	found := files{}
	walker := object.NewTreeWalker(tree, true, nil)
	defer walker.Close()
	for {
		name, e, err := walker.Next()
		switch {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return nil, err
		case e.Mode != filemode.Dir:
			found[name] = entry{e.Hash, e.Mode}
		}
	}
}

// changed returns the paths that differ, sorted.
func changed(a, b files) []string {
	var paths []string
	for name, e := range a {
		if b[name] != e {
			paths = append(paths, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			paths = append(paths, name)
		}
	}
	slices.Sort(paths)
	return paths
}
