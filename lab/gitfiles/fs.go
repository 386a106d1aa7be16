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
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Files returns the files of a commit. Symbolic links are followed within the repository, like os.Root; a submodule is an
// empty folder.
func (c *Clone) Files(commit string) (fs.FS, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tree, err := c.tree(commit)
	if err != nil {
		return nil, fmt.Errorf("commit %s: %w", commit, err)
	}
	t := &treeFS{clone: c, nodes: map[string]*node{".": {name: ".", mode: fs.ModeDir | 0o755}}}
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
		n := &node{name: path.Base(name), hash: e.Hash, mode: modeOf(e.Mode)}
		t.nodes[name] = n
		dir := t.nodes[path.Dir(name)]
		dir.children = append(dir.children, n)
	}
	for _, n := range t.nodes {
		slices.SortFunc(n.children, func(a, b *node) int { return strings.Compare(a.name, b.name) })
	}
	return t, nil
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

type treeFS struct {
	clone *Clone
	nodes map[string]*node // by path
}

type node struct {
	name     string
	mode     fs.FileMode
	hash     plumbing.Hash
	children []*node
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
		target, err := t.content(n)
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

func (t *treeFS) content(n *node) ([]byte, error) {
	t.clone.mu.Lock()
	defer t.clone.mu.Unlock()
	blob, err := t.clone.repo.BlobObject(n.hash)
	if err != nil {
		return nil, err
	}
	r, err := blob.Reader()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

func (t *treeFS) Open(name string) (fs.File, error) {
	n, _, err := t.find("open", name, true)
	if err != nil {
		return nil, err
	}
	if n.mode.IsDir() {
		return &folder{info: t.info(n, path.Base(name)), path: name, entries: t.entries(n)}, nil
	}
	data, err := t.content(n)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &file{info: info{name: path.Base(name), mode: n.mode, size: int64(len(data))}, Reader: bytes.NewReader(data)}, nil
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
	target, err := t.content(n)
	return string(target), err
}

// info describes a node. Only a blob's object has its size.
func (t *treeFS) info(n *node, name string) info {
	i := info{name: name, mode: n.mode}
	if !n.mode.IsDir() {
		t.clone.mu.Lock()
		defer t.clone.mu.Unlock()
		i.size, _ = t.clone.repo.Storer.EncodedObjectSize(n.hash)
	}
	return i
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

func (e entry) Name() string               { return e.name }
func (e entry) IsDir() bool                { return e.mode.IsDir() }
func (e entry) Type() fs.FileMode          { return e.mode.Type() }
func (e entry) Info() (fs.FileInfo, error) { return e.tree.info(e.node, e.name), nil }
func (e entry) String() string             { return fs.FormatDirEntry(e) }

type info struct {
	name string
	mode fs.FileMode
	size int64
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }

type file struct {
	info
	*bytes.Reader
}

func (f *file) Size() int64                { return f.info.size }
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
