package estate

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/bridge"
)

// WithRepositories uses the mounted repositories of an earlier reading, which may be outside fsys.
func WithRepositories(mounted []lab.Repository) Option {
	return func(l *loader) { l.mounted = mounted }
}

// mounts finds the mounted repositories, which the hub lists.
func (l *loader) mounts() {
	for _, c := range l.estate.Clusters {
		if c.Role != lab.RoleHub {
			continue
		}
		for _, address := range slices.Sorted(maps.Keys(c.Mounts)) {
			l.mount(address, c.Mounts[address], c.Position("spec.repositories."+address))
		}
	}
}

// Mount resolves the folders of repositories relative to an estate in dir, which need not exist yet.
func Mount(dir string, repositories []lab.Repository) ([]lab.Repository, error) {
	l := &loader{estate: &lab.Estate{Dir: dir}}
	for _, r := range repositories {
		l.mount(r.URL, r.Dir, lab.Position{File: r.Dir})
	}
	if len(l.problems) > 0 {
		return nil, invalid(l.problems)
	}
	return l.estate.Repositories, nil
}

// Alias adds a repository under another address.
func Alias(repositories []lab.Repository, r lab.Repository, address string) []lab.Repository {
	l := &loader{estate: &lab.Estate{Repositories: repositories}}
	r.URL, r.Name = address, l.mirrorName(lab.RepositoryKey(address))
	return append(repositories, r)
}

// IsAddress reports whether an address names a repository on a host.
func IsAddress(address string) bool {
	return strings.Contains(strings.Trim(lab.RepositoryKey(address), "/"), "/")
}

func (l *loader) mount(address, folder string, at lab.Position) {
	r := lab.Repository{URL: address, Dir: path.Clean(filepath.ToSlash(folder)), At: at}
	key := lab.RepositoryKey(address)
	switch other, taken := l.estate.Repository(address); {
	case !IsAddress(address):
		l.at(at, fmt.Sprintf("%q is no address of a Git repository", address), "https://HOST/OWNER/NAME, as in manifests")
		return
	case folder == "":
		l.at(at, "a repository without folder", "name the folder of your clone, relative to the estate")
		return
	case taken:
		l.at(at, "a second repository "+key, "the first is "+other.Dir)
		return
	}
	var err error
	if r.FS, r.Path, err = l.open(r); err != nil {
		l.at(at, fmt.Sprintf("folder %s of repository %s: %v", folder, address, err), "clone it there: git clone "+address+" "+folder)
		return
	}
	r.Name, r.Branch = l.mirrorName(key), branchOf(r)
	if r.Dir == "." {
		r.Name, r.Branch = bridge.Estate, bridge.Branch
	} else if r.Path != "" {
		r.Revisions = l.revisions(r)
	}
	l.estate.Repositories = append(l.estate.Repositories, r)
}

func (l *loader) open(r lab.Repository) (fs.FS, string, error) {
	for _, m := range l.mounted {
		if m.Dir == r.Dir && m.Dir != "." {
			return m.FS, m.Path, nil
		}
	}
	if fs.ValidPath(r.Dir) && l.fsys != nil {
		info, err := fs.Stat(l.fsys, r.Dir)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("it is a file")
		}
		if err != nil {
			return nil, "", plainError(err)
		}
		sub, err := fs.Sub(l.fsys, r.Dir)
		where := ""
		if l.estate.Dir != "" {
			where = filepath.Join(l.estate.Dir, filepath.FromSlash(r.Dir))
		}
		return sub, where, err
	}
	if l.estate.Dir == "" {
		return nil, "", fmt.Errorf("the estate is not on disk")
	}
	where := filepath.FromSlash(r.Dir)
	if !filepath.IsAbs(where) {
		where = filepath.Join(l.estate.Dir, where)
	}
	root, err := os.OpenRoot(where)
	if err != nil {
		return nil, "", plainError(err)
	}
	return root.FS(), where, nil
}

// plainError strips the path from a file system's error.
func plainError(err error) error {
	if pe, ok := err.(*fs.PathError); ok { //nolint:errorlint // as os returns it
		return pe.Err
	}
	return err
}

// mirrorName returns a unique name in the forge.
func (l *loader) mirrorName(key string) string {
	base := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(path.Base(key), "-"), "-")
	const longest = 50
	base = strings.Trim(base[:min(len(base), longest)], "-")
	name := base
	for n := 2; name == "" || name == bridge.Estate || slices.ContainsFunc(l.estate.Repositories, func(r lab.Repository) bool { return r.Name == name }); n++ {
		name = strings.TrimPrefix(fmt.Sprintf("%s-%d", base, n), "-")
	}
	return name
}

// branchOf returns the branch that is checked out in a repository, or main if unknown.
func branchOf(r lab.Repository) string {
	head, err := fs.ReadFile(r.FS, ".git/HEAD")
	if link, lerr := fs.ReadFile(r.FS, ".git"); err != nil && lerr == nil && r.Path != "" { // a work tree or submodule
		if dir, ok := strings.CutPrefix(strings.TrimSpace(string(link)), "gitdir: "); ok {
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(r.Path, dir)
			}
			head, err = os.ReadFile(filepath.Join(dir, "HEAD"))
		}
	}
	if branch, ok := strings.CutPrefix(strings.TrimSpace(string(head)), "ref: refs/heads/"); ok && err == nil {
		return branch
	}
	return bridge.Branch
}

func (l *loader) mountOf(file string) (fs.FS, string) {
	for _, r := range l.estate.Repositories {
		if rel, ok := strings.CutPrefix(file, r.Dir+"/"); ok && r.Dir != "." {
			return r.FS, rel
		}
	}
	for _, r := range l.others.list() {
		if rel, ok := strings.CutPrefix(file, r.Dir+"/"); ok {
			return r.FS, rel
		}
	}
	return nil, ""
}

// source returns the repository of an address; nil is the estate itself. ok is false for others.
func (l *loader) source(address string) (r *lab.Repository, ok bool) {
	if address == l.inputs().RepoURL {
		return nil, true
	}
	if r, ok = l.inputs().Mounted(address); ok && r.Dir == "." {
		return nil, true
	}
	return r, ok
}

// served is source for an address that the engine reads, and records it. Only HTTP and SSH addresses can be mirrored.
func (l *loader) served(address string) (r *lab.Repository, ok bool) {
	if r, ok = l.source(address); !ok {
		return nil, false
	}
	in := l.inputs()
	at := r
	if at == nil {
		at, _ = in.Mounted(address)
	}
	if at == nil || address == in.MirrorURL(at) {
		return r, true
	}
	ssh := lab.OverSSH(address)
	if !ssh && !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://") {
		return nil, false
	}
	for i := range l.estate.Repositories {
		repository := &l.estate.Repositories[i]
		if repository.Name != at.Name {
			continue
		}
		repository.Written = true
		if n, there := slices.BinarySearch(repository.SSH, address); ssh && !there {
			repository.SSH = slices.Insert(repository.SSH, n, address)
		}
	}
	return r, true
}

// world records the repositories read while ApplicationSets are expanded in parallel.
type world struct {
	appset.World
	mu   sync.Mutex
	read map[string]bool // addresses
}

func (l *loader) world() *world {
	w := &world{World: World(l.estate, l.estate.Clusters), read: map[string]bool{}}
	repository := w.Repository
	w.Repository = func(url, revision string) (fs.FS, error) {
		w.mu.Lock()
		w.read[url] = true
		w.mu.Unlock()
		return repository(url, revision)
	}
	return w
}

func (l *loader) inputs() bridge.Inputs { return bridge.InputsOf(l.estate) }
