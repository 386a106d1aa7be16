package forge

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // Git's
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"homelab/lab/gitcommand"
	"homelab/lab/gitfiles"
)

// Tree is the working tree of an estate.
type Tree struct {
	FS  fs.FS
	Dir string // absolute path of FS on disk; empty for the embedded estate
}

// Git's modes.
const (
	modeFile       = "100644"
	modeExecutable = "100755"
	modeOld        = "100664" // a file, written by early versions
	modeLink       = "120000"
	modeModule     = "160000"
	modeFolder     = "40000"
)

// entry is Git's view of a file.
type entry struct{ Hash, Mode string }

// files maps slash-separated paths to entries.
type files map[string]entry

// errNotDir is the error for a path below a file.
const errNotDir = syscall.ENOTDIR

// Listed returns the files that Git lists, as they are now.
func (t Tree) Listed() fs.FS {
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

// read returns the files that Git lists. Line endings are kept.
func (t Tree) read() (files, error) { return read(t.Listed()) }

func read(from fs.FS) (files, error) {
	found := files{}
	err := fs.WalkDir(from, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		mode, text, err := content(from, name, e)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if mode != "" { // a socket or device
			found[name] = entry{blobHash(text), mode}
		}
		return nil
	})
	return found, err
}

// Hash returns the hash of the tree that a push would commit.
func (t Tree) Hash() (string, error) {
	found, err := t.read()
	return found.hash(), err
}

// content returns a file as Git has it; a special file has no mode.
func content(fsys fs.FS, name string, e fs.DirEntry) (mode string, text []byte, err error) {
	switch {
	case e.Type()&fs.ModeSymlink != 0:
		target, err := fs.ReadLink(fsys, name)
		return modeLink, []byte(filepath.ToSlash(target)), err
	case !e.Type().IsRegular():
		return "", nil, nil
	}
	info, err := e.Info()
	if err != nil {
		return "", nil, err
	}
	mode = modeFile
	if info.Mode()&0o111 != 0 {
		mode = modeExecutable
	}
	text, err = fs.ReadFile(fsys, name)
	return mode, text, err
}

func blobHash(text []byte) string { return objectHash("blob", text) }

func objectHash(kind string, text []byte) string {
	h := sha1.New() //nolint:gosec // Git's
	fmt.Fprintf(h, "%s %d\x00", kind, len(text))
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}

// hash returns the hash of the tree.
func (f files) hash() string {
	here := map[string]entry{} // a folder ends in a slash, as in Git's order
	below := map[string]files{}
	for name, e := range f {
		dir, rest, nested := strings.Cut(name, "/")
		if !nested {
			here[name] = e
			continue
		}
		if below[dir] == nil {
			below[dir] = files{}
		}
		below[dir][rest] = e
	}
	for dir, sub := range below {
		here[dir+"/"] = entry{sub.hash(), modeFolder}
	}
	var b bytes.Buffer
	for _, name := range sorted(here) {
		sum, _ := hex.DecodeString(here[name].Hash)
		fmt.Fprintf(&b, "%s %s\x00%s", here[name].Mode, strings.TrimSuffix(name, "/"), sum)
	}
	return objectHash("tree", b.Bytes())
}

func sorted(f map[string]entry) []string {
	names := make([]string, 0, len(f))
	for name := range f {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
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

// repository returns the repository around the estate, or nil.
func (t Tree) repository(ctx context.Context) (*gitcommand.Clone, error) {
	if t.Dir == "" {
		return nil, nil //nolint:nilnil // none
	}
	return gitcommand.Find(ctx, t.Dir)
}

// ignores reports whether Git ignores a path of the estate.
func (t Tree) ignores(ctx context.Context, name string) (bool, error) {
	if t.Dir == "" {
		return false, nil
	}
	return gitcommand.Ignored(ctx, t.Dir, name)
}
