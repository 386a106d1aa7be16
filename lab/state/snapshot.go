package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const restoringFile = "restoring.json"

// restoring is the durable note that the lab is being replaced by a snapshot.
type restoring struct {
	Snapshot string `json:"snapshot"`
}

// Restoring names the snapshot that a restore, which has not ended, puts in the lab's place; empty where there is none.
func (d *Dir) Restoring() string {
	var r restoring
	if err := d.read(restoringFile, &r); err != nil {
		return ""
	}
	return r.Snapshot
}

// SaveRestoring notes that a restore has begun; with an empty name, that it has ended.
func (d *Dir) SaveRestoring(snapshot string) error {
	if snapshot != "" {
		return d.write(restoringFile, restoring{Snapshot: snapshot})
	}
	if err := os.Remove(filepath.Join(d.Path, restoringFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

// kept are the files and folders that belong to what the lab is made of, and go with it into a snapshot; others are about the estate, or about one run.
var kept = []string{recordFile, credentialsFile, forgeFile, clustersDir, kubeconfigsDir}

// Export reads the files that make a lab what it is, by slash-separated path.
func (d *Dir) Export() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range kept {
		err := filepath.WalkDir(filepath.Join(d.Path, name), func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || e.IsDir() || !wholeFile(name, e.Name()) {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(d.Path, path)
			files[filepath.ToSlash(rel)] = data
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("state: %w", err)
		}
	}
	return files, nil
}

// wholeFile leaves out locks, and what interrupted writes left.
func wholeFile(within, name string) bool {
	return within == name || slices.Contains([]string{".json", ".yaml"}, filepath.Ext(name)) && strings.Count(name, ".") == 1
}

// Import puts what Export read in the place of what there is.
func (d *Dir) Import(files map[string][]byte) error {
	for _, name := range kept {
		if err := os.RemoveAll(filepath.Join(d.Path, name)); err != nil {
			return fmt.Errorf("state: %w", err)
		}
	}
	if err := d.Create(); err != nil {
		return err
	}
	for name, data := range files {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return fmt.Errorf("state: %q is no file of a lab", name)
		}
		if err := d.put(filepath.FromSlash(name), data); err != nil {
			return err
		}
	}
	return nil
}
