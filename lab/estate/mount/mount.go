// Package mount opens the repositories that an estate mounts from folders, at the revision that is checked out and at others.
package mount

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/bridge"
	"homelab/lab/finding"
	"homelab/lab/gitfiles"
	"homelab/lab/regular"
)

// Mounts are the mounted repositories of an estate, in folders relative to it.
type Mounts struct {
	FS      fs.FS            // of the estate; nil if it does not exist yet
	Dir     string           // of the estate, empty if it is not on disk
	Earlier []lab.Repository // of an earlier reading, which may be outside FS
	List    []lab.Repository

	// Open returns the files of a folder at the revision that is read instead of the one that is checked out, or nil if there is none. It may be nil.
	Open func(dir, where string) (fs.FS, error)

	others revisions
}

// Add opens the repository of an address in a folder, or returns why that is impossible.
func (m *Mounts) Add(address, folder string, at lab.Position) *lab.Problem {
	problem := func(message, cure string) *lab.Problem {
		return &lab.Problem{Code: finding.InvalidMount, Position: at, Message: message, Cure: cure}
	}
	r := lab.Repository{URL: address, Dir: path.Clean(filepath.ToSlash(folder)), At: at}
	key := lab.RepositoryKey(address)
	first := slices.IndexFunc(m.List, func(other lab.Repository) bool { return lab.RepositoryKey(other.URL) == key })
	switch {
	case !IsAddress(address):
		return problem(fmt.Sprintf("%q is not the address of a Git repository", address), "https://HOST/OWNER/NAME, as in manifests")
	case folder == "":
		return problem("a repository without folder", "name the folder of your clone, relative to the estate")
	case first >= 0:
		return problem("a second repository "+key, "the first is "+m.List[first].Dir)
	}
	var err error
	if r.FS, r.Path, err = m.open(&r); err != nil {
		return problem(fmt.Sprintf("folder %s of repository %s: %v", folder, address, err), "clone it there: git clone "+address+" "+folder)
	}
	r.Name, r.Branch = mirrorName(m.List, key), cmp.Or(r.Branch, branchOf(r))
	if r.Dir == "." {
		r.Name, r.Branch = bridge.Estate, bridge.Branch
	} else if r.Path != "" {
		r.Revisions = m.revisions(r)
	}
	m.List = append(m.List, r)
	return nil
}

func (m *Mounts) open(r *lab.Repository) (fs.FS, string, error) {
	for _, earlier := range m.Earlier {
		if earlier.Dir == r.Dir && earlier.Dir != "." {
			r.Branch = earlier.Branch
			return earlier.FS, earlier.Path, nil
		}
	}
	if m.Dir == "" {
		if !fs.ValidPath(r.Dir) || m.FS == nil {
			return nil, "", fmt.Errorf("the estate is not on disk")
		}
		info, err := fs.Stat(m.FS, r.Dir)
		if err == nil && !info.IsDir() {
			err = errFile
		}
		if err != nil {
			return nil, "", plainError(err)
		}
		sub, err := fs.Sub(m.FS, r.Dir)
		return sub, "", err
	}
	if r.Dir == "." && m.FS != nil {
		return m.FS, m.Dir, nil
	}
	where := filepath.FromSlash(r.Dir)
	if !filepath.IsAbs(where) {
		where = filepath.Join(m.Dir, where)
	}
	if m.Open != nil {
		if files, err := m.Open(r.Dir, where); files != nil || err != nil {
			return files, where, err
		}
	}
	if err := m.folder(r.Dir, where); err != nil {
		return nil, "", plainError(err)
	}
	files := gitfiles.OfFolder(where)
	return files, where, files.Refresh(context.Background())
}

var errFile = errors.New("it is a file")

// folder checks that a path is a folder, and within the estate if it looks like that: a link may lead out of it.
func (m *Mounts) folder(dir, where string) error {
	info, err := os.Stat(where)
	if err == nil && fs.ValidPath(dir) && m.FS != nil {
		var root *os.Root
		if root, err = os.OpenRoot(m.Dir); err == nil {
			info, err = root.Stat(filepath.FromSlash(dir))
			_ = root.Close()
		}
	}
	if err == nil && !info.IsDir() {
		err = errFile
	}
	return err
}

// plainError strips the path from a file system's error.
func plainError(err error) error {
	if pe, ok := err.(*fs.PathError); ok { //nolint:errorlint // as os returns it
		return pe.Err
	}
	return err
}

// File returns the file system with a file of a repository, as named in messages, and its name there; nil for others.
func (m *Mounts) File(file string) (fs.FS, string) {
	for _, r := range m.List {
		if rel, ok := strings.CutPrefix(file, r.Dir+"/"); ok && r.Dir != "." {
			return r.FS, rel
		}
	}
	for _, r := range m.others.list() {
		if rel, ok := strings.CutPrefix(file, r.Dir+"/"); ok {
			return r.FS, rel
		}
	}
	return nil, ""
}

// Alias adds a repository under another address.
func Alias(repositories []lab.Repository, r lab.Repository, address string) []lab.Repository {
	r.URL, r.Name = address, mirrorName(repositories, lab.RepositoryKey(address))
	return append(repositories, r)
}

// IsAddress reports whether an address names a repository on a host.
func IsAddress(address string) bool {
	return strings.Contains(strings.Trim(lab.RepositoryKey(address), "/"), "/")
}

// mirrorName returns a name in the forge that no other repository has.
func mirrorName(others []lab.Repository, key string) string {
	base := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(path.Base(key), "-"), "-")
	const longest = 50
	base = strings.Trim(base[:min(len(base), longest)], "-")
	name := base
	for n := 2; name == "" || name == bridge.Estate || slices.ContainsFunc(others, func(r lab.Repository) bool { return r.Name == name }); n++ {
		name = strings.TrimPrefix(fmt.Sprintf("%s-%d", base, n), "-")
	}
	return name
}

// branchOf returns the branch that is checked out in a repository, or main if unknown.
func branchOf(r lab.Repository) string {
	read := func(name string) ([]byte, error) { // an estate in memory has its clones, too
		if r.Path == "" {
			return fs.ReadFile(r.FS, name)
		}
		return regular.Read(filepath.Join(r.Path, filepath.FromSlash(name)), regular.Small)
	}
	head, err := read(".git/HEAD")
	if link, lerr := read(".git"); err != nil && lerr == nil && r.Path != "" { // a work tree or submodule
		if dir, ok := strings.CutPrefix(strings.TrimSpace(string(link)), "gitdir: "); ok {
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(r.Path, dir)
			}
			head, err = regular.Read(filepath.Join(dir, "HEAD"), regular.Small)
		}
	}
	if branch, ok := strings.CutPrefix(strings.TrimSpace(string(head)), "ref: refs/heads/"); ok && err == nil {
		return branch
	}
	return bridge.Branch
}

// LinksOut reports whether a repository, at any revision that was opened, has a symbolic link that leaves it.
func (m *Mounts) LinksOut() bool {
	trees := []fs.FS{m.FS}
	for _, r := range m.List {
		trees = append(trees, r.FS)
	}
	for _, r := range m.others.list() {
		trees = append(trees, r.FS)
	}
	return slices.ContainsFunc(trees, linksOut)
}

func linksOut(tree fs.FS) (out bool) {
	if tree == nil {
		return false
	}
	_ = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Type() != fs.ModeSymlink {
			return nil //nolint:nilerr // what cannot be read is reported where it is needed
		}
		target, err := fs.ReadLink(tree, name)
		if out = err == nil && (path.IsAbs(target) || !fs.ValidPath(path.Join(path.Dir(name), target))); out {
			return fs.SkipAll
		}
		return nil
	})
	return out
}
