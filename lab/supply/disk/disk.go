// Package disk writes files atomically and explains full disks.
package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"homelab/lab"
)

// CacheCure is the alternative to freeing space on the disk of lab's cache.
const CacheCure = "or move lab's cache with XDG_CACHE_HOME"

// WriteFile replaces a file atomically and syncs it.
func WriteFile(name string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Chmod(0o644), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), name)
}

// SyncTree syncs all files below dir: some file systems report a full disk only then.
func SyncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return Sync(path)
	})
}

// Sync syncs a file.
func Sync(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// full are the messages of a full disk.
var full = []string{"no space left on device", "disk quota exceeded"}

// Explain turns an error of a full disk into a *lab.Error with code "no_space"; other is an alternative cure. Other
// errors are returned unchanged. dir is used if the error names no path.
func Explain(err error, dir, other string) error {
	var known *lab.Error
	if err == nil || errors.As(err, &known) && known.Code == "no_space" {
		return err
	}
	short := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
	for _, words := range full {
		short = short || strings.Contains(err.Error(), words)
	}
	if !short {
		return err
	}
	var at *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &at) && filepath.IsAbs(at.Path):
		dir = filepath.Dir(at.Path)
	case errors.As(err, &link) && filepath.IsAbs(link.New):
		dir = filepath.Dir(link.New)
	}
	cure := "free space: df -h " + dir
	if other != "" {
		cure += "; " + other
	}
	return &lab.Error{Exit: lab.ExitFailed, Code: "no_space", Message: "no space left in " + dir, Cure: cure, Err: err}
}
