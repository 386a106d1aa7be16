package gitfiles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"syscall"
	"unicode/utf8"

	"homelab/lab"
	"homelab/lab/gitcommand"
	"homelab/lab/regular"
)

// Worktree has the files of a folder that Git lists, and no others: what is pushed, rendered, expanded and checked is the same. There are no ignored files, no empty
// folders and no nested repositories. A link is followed if what it names is listed too. The list is made at the first access, and by Refresh.
type Worktree struct {
	dir string

	mu   sync.Mutex
	tree *treeFS
}

// OfFolder returns the files of a folder. It reads nothing yet.
func OfFolder(dir string) *Worktree { return &Worktree{dir: dir} }

// Refresh lists the files again.
func (w *Worktree) Refresh(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.list(ctx)
}

func (w *Worktree) list(ctx context.Context) error {
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return err
	}
	names, err := gitcommand.List(ctx, w.dir)
	if err != nil {
		_ = root.Close()
		return err
	}
	t := newTree(&disk{root: root}) // the file system outlives the listing; its root is closed when it is collected
	for _, name := range names {
		if !utf8.ValidString(name) {
			return &lab.Error{
				Exit: lab.ExitInvalid, Code: "unsafe_path", Message: fmt.Sprintf("the estate has a file whose name is not UTF-8: %q", name), Cure: "rename it, or have Git ignore it",
			}
		}
		if !fs.ValidPath(name) {
			continue
		}
		info, err := os.Lstat(filepath.Join(w.dir, filepath.FromSlash(name)))
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // tracked, and deleted
		case err != nil:
			return err
		case !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeSymlink: // a submodule, say
		case w.within(t, path.Dir(name)):
			t.add(&node{path: name, mode: info.Mode() & (fs.ModeType | fs.ModePerm), bytes: info.Size()})
		}
	}
	t.sort()
	w.tree = t
	return nil
}

// within adds a folder and reports whether it is one, and not a link to one.
func (w *Worktree) within(t *treeFS, dir string) bool {
	if n, ok := t.nodes[dir]; ok {
		return n != nil && n.mode.IsDir()
	}
	if !w.within(t, path.Dir(dir)) {
		return false
	}
	info, err := os.Lstat(filepath.Join(w.dir, filepath.FromSlash(dir)))
	if err != nil || !info.IsDir() {
		return false
	}
	t.add(&node{path: dir, mode: info.Mode() & (fs.ModeType | fs.ModePerm)})
	return true
}

func (w *Worktree) current() (*treeFS, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tree == nil {
		if err := w.list(context.Background()); err != nil {
			return nil, err
		}
	}
	return w.tree, nil
}

// on calls a method of the listed files.
func on[T any](w *Worktree, name string, call func(*treeFS, string) (T, error)) (T, error) {
	t, err := w.current()
	if err != nil {
		var none T
		return none, err
	}
	return call(t, name)
}

// Open opens a file or folder.
func (w *Worktree) Open(name string) (fs.File, error) { return on(w, name, (*treeFS).Open) }

// ReadFile reads a file.
func (w *Worktree) ReadFile(name string) ([]byte, error) { return on(w, name, (*treeFS).ReadFile) }

// Stat describes a file, and what a link names.
func (w *Worktree) Stat(name string) (fs.FileInfo, error) { return on(w, name, (*treeFS).Stat) }

// Lstat describes a file or link.
func (w *Worktree) Lstat(name string) (fs.FileInfo, error) { return on(w, name, (*treeFS).Lstat) }

// ReadLink returns what a link names.
func (w *Worktree) ReadLink(name string) (string, error) { return on(w, name, (*treeFS).ReadLink) }

// disk reads files of a folder, and none outside. It keeps the folder of the last file open, as a walk goes from folder to folder, and what it has read, as a chart is read
// for each application.
type disk struct {
	root *os.Root

	mu   sync.Mutex
	dir  string
	last *os.Root
	kept int
}

// Bytes that are kept of a file, and of all.
const (
	keptFile = 1 << 18
	keptAll  = 1 << 26
)

// in calls do with the folder of a node.
func (d *disk) in(n *node, do func(root *os.Root, name string) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	dir := path.Dir(n.path)
	if dir == "." {
		return do(d.root, n.path)
	}
	if d.last == nil || d.dir != dir {
		next, err := d.root.OpenRoot(filepath.FromSlash(dir))
		if err != nil {
			return err
		}
		if d.last != nil {
			_ = d.last.Close()
		}
		d.dir, d.last = dir, next
	}
	return do(d.last, path.Base(n.path))
}

func (d *disk) content(n *node) (data []byte, err error) {
	if kept := n.data.Load(); kept != nil {
		return bytes.Clone(*kept), nil
	}
	err = d.in(n, func(root *os.Root, name string) error {
		if n.mode.Type() == fs.ModeSymlink {
			target, err := root.Readlink(name)
			data = []byte(filepath.ToSlash(target))
			return err
		}
		data, err = regular.In(root, name)
		if err == nil && len(data) <= keptFile && d.kept+len(data) <= keptAll {
			d.kept += len(data)
			n.data.Store(&data)
		}
		return err
	})
	return bytes.Clone(data), err
}

func (d *disk) size(n *node) int64 { return n.bytes }
