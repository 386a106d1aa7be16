package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const restoringFile = "restoring.json"

// restoring records that a restore is in progress.
type restoring struct {
	Snapshot string `json:"snapshot"`
}

// Restoring returns the snapshot of an incomplete restore, or "".
func (d *Dir) Restoring() string {
	var r restoring
	if err := d.read(restoringFile, &r); err != nil {
		return ""
	}
	return r.Snapshot
}

// SaveRestoring records the start of a restore or, with an empty name, its end.
func (d *Dir) SaveRestoring(snapshot string) error {
	if snapshot != "" {
		return d.write(restoringFile, restoring{Snapshot: snapshot})
	}
	if err := os.Remove(filepath.Join(d.Path, restoringFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

// withoutAttached drops the files of clusters that are attached, or were when exported.
func withoutAttached(files map[string][]byte, attached []string) map[string][]byte {
	list := slices.Clone(attached)
	for name, data := range files {
		cluster, ok := strings.CutPrefix(name, clustersDir+"/")
		if !ok {
			continue
		}
		var c Cluster
		if json.Unmarshal(data, &c) == nil && c.Attached {
			list = append(list, strings.TrimSuffix(cluster, ".json"))
		}
	}
	rest := maps.Clone(files)
	for _, name := range list {
		delete(rest, clustersDir+"/"+name+".json")
		delete(rest, kubeconfigsDir+"/"+name+".yaml")
	}
	return rest
}

// removeExcept removes a file, or a folder except for the files of some clusters.
func (d *Dir) removeExcept(name string, clusters []string) error {
	dir := filepath.Join(d.Path, name)
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !info.IsDir() {
		return errors.Join(err, os.RemoveAll(dir))
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(clusters, strings.TrimSuffix(e.Name(), filepath.Ext(e.Name()))) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// kept are the files and folders of a snapshot. Others are about the estate or a single run.
var kept = []string{recordFile, credentialsFile, ForgeFile, portsFile, partsFile, clustersDir, kubeconfigsDir}

// Export reads the files of a snapshot, by slash-separated path.
func (d *Dir) Export() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range kept {
		err := filepath.WalkDir(filepath.Join(d.Path, name), func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || e.IsDir() || !exportable(name, e.Name()) {
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

// exportable rejects locks and leftovers of interrupted writes.
func exportable(within, name string) bool {
	return within == name || slices.Contains([]string{".json", ".yaml"}, filepath.Ext(name)) && strings.Count(name, ".") == 1
}

// Import replaces the state with exported files, except for attached clusters: a snapshot cannot restore them.
func (d *Dir) Import(files map[string][]byte) error {
	attached, err := d.Attached()
	if err != nil {
		return err
	}
	files = withoutAttached(files, attached)
	for _, name := range kept {
		if err := d.removeExcept(name, attached); err != nil {
			return fmt.Errorf("state: %w", err)
		}
	}
	if err := d.Create(); err != nil {
		return err
	}
	for name, data := range files {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return fmt.Errorf("state: %q is not a file of a lab", name)
		}
		if err := d.put(filepath.FromSlash(name), data); err != nil {
			return err
		}
	}
	return nil
}
