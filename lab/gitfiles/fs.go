package gitfiles

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Files returns the files of a commit. Symbolic links are followed within the repository, like os.Root; a submodule is an
// empty folder.
func (c *Clone) Files(commit string) (fs.FS, error) { return c.FilesIn(commit, ".") }

// FilesIn is like Files for a folder of the repository; links are followed within the folder.
func (c *Clone) FilesIn(commit, dir string) (fs.FS, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tree, err := c.tree(commit)
	if err == nil && dir != "." {
		tree, err = tree.Tree(dir)
	}
	if errors.Is(err, object.ErrDirectoryNotFound) {
		return nil, fmt.Errorf("commit %s has no folder %s: %w", commit, dir, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("commit %s: %w", commit, err)
	}
	t := newTree(c)
	walker := object.NewTreeWalker(tree, true, nil)
	defer walker.Close()
	for {
		name, e, err := walker.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("commit %s: %w", commit, err)
		}
		t.add(&node{path: name, hash: e.Hash, mode: modeOf(e.Mode)})
	}
	t.sort()
	return t, nil
}

// content returns a blob.
func (c *Clone) content(n *node) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kept, known := c.blobs[n.hash]; known {
		return bytes.Clone(kept), nil
	}
	blob, err := c.repo.BlobObject(n.hash)
	if err != nil {
		return nil, err
	}
	r, err := blob.Reader()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err == nil && len(data) <= keptFile && c.kept+len(data) <= keptAll {
		c.kept += len(data)
		c.blobs[n.hash] = bytes.Clone(data)
	}
	return data, err
}

// size returns the size of a blob, which only its object has.
func (c *Clone) size(n *node) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	size, _ := c.repo.Storer.EncodedObjectSize(n.hash)
	return size
}

func modeOf(m filemode.FileMode) fs.FileMode {
	switch m {
	case filemode.Dir, filemode.Submodule:
		return fs.ModeDir | 0o755
	case filemode.Symlink:
		return fs.ModeSymlink | 0o777
	case filemode.Executable:
		return 0o755
	}
	return 0o644
}

// treeFS is a tree whose files come from elsewhere.
type treeFS struct {
	from  source
	nodes map[string]*node // by path
}

// source has the files of a tree.
type source interface {
	content(n *node) ([]byte, error) // the target of a link
	size(n *node) int64
}

type node struct {
	path     string
	mode     fs.FileMode
	hash     plumbing.Hash          // in a clone
	bytes    int64                  // on disk
	data     atomic.Pointer[[]byte] // once it has been read from disk, unless it is large
	children []*node
}

func (n *node) name() string { return path.Base(n.path) }

func newTree(from source) *treeFS {
	return &treeFS{from: from, nodes: map[string]*node{".": {path: ".", mode: fs.ModeDir | 0o755}}}
}

// add adds a node to its folder, which exists.
func (t *treeFS) add(n *node) {
	t.nodes[n.path] = n
	dir := t.nodes[path.Dir(n.path)]
	dir.children = append(dir.children, n)
}

func (t *treeFS) sort() {
	for _, n := range t.nodes {
		slices.SortFunc(n.children, func(a, b *node) int { return strings.Compare(a.name(), b.name()) })
	}
}

// maxLinks limits the symbolic links in a path, as in Linux.
const maxLinks = 40

// find returns the node of a path. It follows symbolic links, in the last element only if last is set.
func (t *treeFS) find(op, name string, last bool) (*node, string, error) {
	if !fs.ValidPath(name) {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	at, rest := ".", strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		next := path.Join(at, rest[0])
		rest = rest[1:]
		n := t.nodes[next]
		if n == nil {
			return nil, "", &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
		if n.mode.Type() != fs.ModeSymlink || len(rest) == 0 && !last {
			at = next
			continue
		}
		target, err := t.from.content(n)
		if links++; err != nil || links > maxLinks {
			return nil, "", &fs.PathError{Op: op, Path: name, Err: errors.Join(err, errors.New("too many links"))}
		}
		to := path.Join(at, string(target))
		if path.IsAbs(string(target)) || !fs.ValidPath(to) {
			return nil, "", &fs.PathError{Op: op, Path: name, Err: errors.New("path escapes from parent")}
		}
		at, rest = ".", append(strings.Split(to, "/"), rest...)
	}
	return t.nodes[at], at, nil
}

func (t *treeFS) Open(name string) (fs.File, error) {
	n, _, err := t.find("open", name, true)
	if err != nil {
		return nil, err
	}
	if n.mode.IsDir() {
		return &folder{info: t.info(n, path.Base(name)), path: name, entries: t.entries(n)}, nil
	}
	data, err := t.read("open", name, n)
	if err != nil {
		return nil, err
	}
	return &file{info: info{name: path.Base(name), mode: n.mode, size: func() int64 { return int64(len(data)) }}, Reader: bytes.NewReader(data)}, nil
}

// ReadFile reads a file once.
func (t *treeFS) ReadFile(name string) ([]byte, error) {
	n, _, err := t.find("open", name, true)
	if err != nil {
		return nil, err
	}
	if n.mode.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("is a directory")}
	}
	return t.read("open", name, n)
}

func (t *treeFS) read(op, name string, n *node) ([]byte, error) {
	data, err := t.from.content(n)
	if err != nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: plain(err)}
	}
	return data, nil
}

// plain strips the path from an error of a file system.
func plain(err error) error {
	if pe, ok := err.(*fs.PathError); ok { //nolint:errorlint // as os returns it
		return pe.Err
	}
	return err
}

// Stat does not list folders.
func (t *treeFS) Stat(name string) (fs.FileInfo, error) {
	n, _, err := t.find("stat", name, true)
	if err != nil {
		return nil, err
	}
	return t.info(n, path.Base(name)), nil
}

func (t *treeFS) Lstat(name string) (fs.FileInfo, error) {
	n, _, err := t.find("lstat", name, false)
	if err != nil {
		return nil, err
	}
	return t.info(n, path.Base(name)), nil
}

func (t *treeFS) ReadLink(name string) (string, error) {
	n, _, err := t.find("readlink", name, false)
	if err != nil {
		return "", err
	}
	if n.mode.Type() != fs.ModeSymlink {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	target, err := t.from.content(n)
	return string(target), err
}

// info describes a node.
func (t *treeFS) info(n *node, name string) info {
	return info{name: name, mode: n.mode, size: func() int64 {
		if n.mode.IsDir() {
			return 0
		}
		return t.from.size(n)
	}}
}

func (t *treeFS) entries(n *node) []fs.DirEntry {
	list := make([]fs.DirEntry, 0, len(n.children))
	for _, child := range n.children {
		list = append(list, entry{t, child})
	}
	return list
}

type entry struct {
	tree *treeFS
	*node
}

func (e entry) Name() string               { return e.name() }
func (e entry) IsDir() bool                { return e.mode.IsDir() }
func (e entry) Type() fs.FileMode          { return e.mode.Type() }
func (e entry) Info() (fs.FileInfo, error) { return e.tree.info(e.node, e.name()), nil }
func (e entry) String() string             { return fs.FormatDirEntry(e) }

type info struct {
	name string
	mode fs.FileMode
	size func() int64 // opens a blob
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size() }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }

type file struct {
	info
	*bytes.Reader
}

func (f *file) Size() int64                { return f.info.size() }
func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *file) Close() error               { return nil }

type folder struct {
	info
	path    string
	entries []fs.DirEntry
}

func (d *folder) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *folder) Close() error               { return nil }

func (d *folder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.path, Err: errors.New("is a directory")}
}

func (d *folder) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		n = len(d.entries)
	} else if len(d.entries) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.entries))
	list := d.entries[:n]
	d.entries = d.entries[n:]
	return list, nil
}
