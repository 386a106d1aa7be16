package estate

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/bridge"
	"homelab/lab/estate/mount"
)

// WithRepositories uses the mounted repositories of an earlier reading, which may be outside fsys.
func WithRepositories(mounted []lab.Repository) Option {
	return func(l *loader) { l.mounted.Earlier = mounted }
}

// WithRevisions opens mounted repositories at other revisions than those that are checked out: see mount.Mounts.Open.
func WithRevisions(open func(dir, where string) (fs.FS, error)) Option {
	return func(l *loader) { l.mounted.Open = open }
}

// mounts opens the mounted repositories, which the hub lists.
func (l *loader) mounts() {
	for _, c := range l.estate.Clusters {
		if c.Role != lab.RoleHub {
			continue
		}
		for _, address := range slices.Sorted(maps.Keys(c.Mounts)) {
			if p := l.mounted.Add(address, c.Mounts[address], c.Position("spec.repositories."+address)); p != nil {
				l.problems = append(l.problems, *p)
			}
		}
	}
	l.estate.Repositories = l.mounted.List
}

// Mount opens repositories in folders relative to an estate in dir, which need not exist yet.
func Mount(dir string, repositories []lab.Repository) ([]lab.Repository, error) {
	m := mount.Mounts{Dir: dir}
	var problems lab.Problems
	for _, r := range repositories {
		if p := m.Add(r.URL, r.Dir, lab.Position{File: r.Dir}); p != nil {
			problems = append(problems, *p)
		}
	}
	if len(problems) > 0 {
		return nil, invalid(problems)
	}
	return m.List, nil
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
