package forge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"homelab/lab/gitcommand"
	"homelab/lab/gitfiles"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
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

// files returns the files that Git lists, as they are now.
func (t Tree) files() fs.FS {
	if t.Dir == "" {
		return t.FS
	}
	return gitfiles.OfFolder(t.Dir)
}

// disk returns everything in the folder.
func (t Tree) disk() fs.FS {
	if t.Dir == "" {
		return t.FS
	}
	return os.DirFS(t.Dir)
}

// read stores the files that Git lists as blobs. Line endings are kept.
func (t Tree) read(store storer.EncodedObjectStorer) (files, error) {
	found := files{}
	from := t.files()
	err := fs.WalkDir(from, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		mode, content, err := content(from, name, e)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if mode == filemode.Empty { // a socket or device
			return nil
		}
		hash, err := put(store, plumbing.BlobObject, content)
		found[name] = entry{hash, mode}
		return err
	})
	return found, err
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

func content(fsys fs.FS, name string, e fs.DirEntry) (filemode.FileMode, []byte, error) {
	switch {
	case e.Type()&fs.ModeSymlink != 0:
		target, err := fs.ReadLink(fsys, name)
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
	content, err := fs.ReadFile(fsys, name)
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

// ignores reports whether Git ignores a path of the estate.
func (t Tree) ignores(name string) (bool, error) {
	if t.Dir == "" {
		return false, nil
	}
	return gitcommand.Ignored(context.Background(), t.Dir, name)
}

// errNotDir is the error for a path below a file.
const errNotDir = syscall.ENOTDIR

// repository returns the root of the enclosing repository, or "".
func (t Tree) repository() string {
	if t.Dir == "" {
		return ""
	}
	top, err := gitcommand.Top(t.Dir)
	if err != nil {
		return ""
	}
	return top
}
