// Package store keeps built and fetched results: a folder per result, named by its name and key. Results are complete or missing, and concurrent processes build each
// result once.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"homelab/lab"
	"homelab/lab/supply/disk"
)

// lockPoll is the polling interval of locks; flock(2) cannot wait with a context.
const lockPoll = 200 * time.Millisecond

// metaFile is written last, before the folder is renamed to its final name.
const metaFile = "meta.json"

// keyChars is the length of a key in folder names: 64 bits do not collide among a few dozen results.
const keyChars = 16

// Meta is the metadata of a result.
type Meta struct {
	Name    string  `json:"name"`
	Key     string  `json:"key"`
	Ref     string  `json:"ref,omitempty"`     // image name, for images
	Digest  string  `json:"digest,omitempty"`  // sha256:... of an image's configuration or of a file
	Version string  `json:"version,omitempty"` // of the content
	Size    int64   `json:"size"`              // bytes of all files
	Seconds float64 `json:"seconds"`           // build time
	CPU     float64 `json:"cpu,omitempty"`     // CPU time in seconds, if measured

	Origin lab.Origin `json:"origin,omitempty"` // if not implied by the key
	Made   time.Time  `json:"made"`
}

// Entry is a stored result.
type Entry struct {
	Meta
	Dir string
}

// Path returns the path of a file of the result.
func (e Entry) Path(elem ...string) string {
	return filepath.Join(append([]string{e.Dir}, elem...)...)
}

// Store is a folder of results. It is safe for concurrent use, also by several processes.
type Store struct {
	dir string
	steps
}

// steps of writing a result; tests inject faults.
type steps struct {
	sync   func(dir string) error // the files below
	write  func(name string, data []byte) error
	rename func(from, to string) error
	settle func(dir string) error // the folder's own entries
}

// Open opens the store in dir. It writes nothing before Make: reading works in a read-only file system, and where nothing is stored.
func Open(dir string) *Store {
	return &Store{dir: dir, steps: steps{sync: disk.SyncTree, write: disk.WriteFile, rename: os.Rename, settle: disk.Sync}}
}

func (s *Store) explain(err error) error { return disk.Explain(err, s.dir, disk.CacheCure) }

// Dir returns the store's folder.
func (s *Store) Dir() string { return s.dir }

func (s *Store) work() string  { return filepath.Join(s.dir, ".work") }
func (s *Store) locks() string { return filepath.Join(s.dir, ".locks") }

func folder(name, key string) string { return name + "-" + key[:min(keyChars, len(key))] }

// Lookup returns a result, or false.
func (s *Store) Lookup(name, key string) (Entry, bool, error) {
	dir := filepath.Join(s.dir, folder(name, key))
	data, err := os.ReadFile(filepath.Join(dir, metaFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{}, false, nil
	}
	if err != nil {
		return Entry{}, false, fmt.Errorf("store: %s: %w", name, err)
	}
	e := Entry{Dir: dir}
	if err := json.Unmarshal(data, &e.Meta); err != nil {
		return Entry{}, false, fmt.Errorf("store: %s: %w", name, err)
	}
	if e.Key != key { // keys with a common prefix
		return Entry{}, false, nil
	}
	return e, true, nil
}

// Make returns a result. If it is missing, build writes its files into an empty folder. While another process makes the
// same result, Make waits for it; waiting is called once and may be nil. A failed or killed build leaves nothing.
func (s *Store) Make(ctx context.Context, name, key string, waiting func(), build func(ctx context.Context, dir string) (Meta, error)) (Entry, error) {
	if e, ok, err := s.Lookup(name, key); ok || err != nil {
		return e, err
	}
	for _, d := range []string{s.work(), s.locks()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return Entry{}, s.explain(fmt.Errorf("store: %w", err))
		}
	}
	lock := flock.New(filepath.Join(s.locks(), folder(name, key)))
	ok, err := lock.TryLock()
	if err == nil && !ok {
		if waiting != nil {
			waiting()
		}
		ok, err = lock.TryLockContext(ctx, lockPoll)
	}
	if err != nil || !ok {
		return Entry{}, s.explain(fmt.Errorf("store: lock %s: %w", name, errors.Join(err, ctx.Err())))
	}
	defer func() { _ = lock.Unlock() }()
	if e, ok, err := s.Lookup(name, key); ok || err != nil {
		return e, err
	}
	e, err := s.make(ctx, name, key, build)
	return e, s.explain(err)
}

func (s *Store) make(ctx context.Context, name, key string, build func(ctx context.Context, dir string) (Meta, error)) (Entry, error) {
	if err := s.sweep(name, key); err != nil {
		return Entry{}, err
	}
	tmp, err := os.MkdirTemp(s.work(), folder(name, key)+".")
	if err != nil {
		return Entry{}, fmt.Errorf("store: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := os.Chmod(tmp, 0o755); err != nil {
		return Entry{}, fmt.Errorf("store: %w", err)
	}
	start := time.Now()
	meta, err := build(ctx, tmp)
	if err != nil {
		return Entry{}, err
	}
	meta.Name, meta.Key = name, key
	meta.Made = start.UTC()
	if meta.Seconds == 0 {
		meta.Seconds = time.Since(start).Seconds()
	}
	if meta.Size, err = treeSize(tmp); err != nil {
		return Entry{}, fmt.Errorf("store: %w", err)
	}
	data, err := json.MarshalIndent(meta, "", "  ")
	if err != nil {
		return Entry{}, fmt.Errorf("store: %w", err)
	}
	if err := s.sync(tmp); err != nil {
		return Entry{}, fmt.Errorf("store: %w", err)
	}
	if err := s.write(filepath.Join(tmp, metaFile), append(data, '\n')); err != nil {
		return Entry{}, fmt.Errorf("store: %w", err)
	}
	if err := s.settle(tmp); err != nil {
		return Entry{}, fmt.Errorf("store: %w", err)
	}
	dir := filepath.Join(s.dir, folder(name, key))
	if err := s.rename(tmp, dir); err != nil {
		return Entry{}, fmt.Errorf("store: %w", err)
	}
	return Entry{Meta: meta, Dir: dir}, nil
}

// sweep removes leftovers of killed builds: of this result, whose lock is held, and of others whose locks are free.
func (s *Store) sweep(name, key string) error {
	left, err := os.ReadDir(s.work())
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, e := range left {
		of, _, _ := cutLast(e.Name(), ".")
		if of != folder(name, key) {
			lock := flock.New(filepath.Join(s.locks(), of))
			if ok, err := lock.TryLock(); err != nil || !ok {
				continue // being built
			}
			defer func() { _ = lock.Unlock() }()
		}
		if err := os.RemoveAll(filepath.Join(s.work(), e.Name())); err != nil {
			return fmt.Errorf("store: leftover of a killed build: %w", err)
		}
	}
	return nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// WorkDir creates a temporary folder for a build next to dir. The build removes it; after a kill, the store does.
func WorkDir(dir string) (string, error) {
	return os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+"-")
}

// Remove deletes a result.
func (s *Store) Remove(e Entry) error {
	// Renamed first, so that it disappears atomically; to a new name, since a full disk may have no room for another
	// folder.
	gone := filepath.Join(s.work(), fmt.Sprintf("%s.gone-%d", folder(e.Name, e.Key), time.Now().UnixNano()))
	if err := os.Rename(e.Dir, gone); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return os.RemoveAll(gone)
}

// Prune deletes all results of a name but the newest. Another version of lab may have to rebuild its own; it never
// finds a partial one.
func (s *Store) Prune(name string, keep int) error {
	all, err := s.Entries()
	if err != nil {
		return err
	}
	of := slices.DeleteFunc(all, func(e Entry) bool { return e.Name != name })
	slices.SortFunc(of, func(a, b Entry) int { return b.Made.Compare(a.Made) })
	for _, e := range of[min(keep, len(of)):] {
		if err := s.Remove(e); err != nil {
			return err
		}
	}
	return nil
}

// Entries returns all results, sorted by folder name.
func (s *Store) Entries() ([]Entry, error) {
	dirs, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("store: %w", err)
	}
	var list []Entry
	for _, d := range dirs {
		if !d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			continue
		}
		dir := filepath.Join(s.dir, d.Name())
		data, err := os.ReadFile(filepath.Join(dir, metaFile))
		if err != nil {
			continue // foreign
		}
		e := Entry{Dir: dir}
		if json.Unmarshal(data, &e.Meta) == nil {
			list = append(list, e)
		}
	}
	return list, nil
}

func treeSize(dir string) (int64, error) {
	var n int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		n += info.Size()
		return nil
	})
	return n, err
}
