// Package disk puts files in place whole or not at all, and says what to do where there is no room for them.
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

// CacheCure is what cures a full disk with lab's cache on it, other than room.
const CacheCure = "or put lab's cache elsewhere with XDG_CACHE_HOME"

// WriteFile puts data under name in one step, when it is on the disk: what was there before stays until then.
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

// SyncTree waits until every file below dir is on the disk: some file systems find out only then that there is no room.
func SyncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return Sync(path)
	})
}

// Sync waits until a file is on the disk.
func Sync(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// full is how programs say that there is no room.
var full = []string{"no space left on device", "disk quota exceeded"}

// Explain turns an error for want of room into one that says where, and what cures it; other is a cure beside making room. Any other error stays as it is. dir is
// where the writing was done, for an error that does not say it.
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
	cure := "make room: df -h " + dir
	if other != "" {
		cure += "; " + other
	}
	return &lab.Error{Exit: lab.ExitFailed, Code: "no_space", Message: "no room is left in " + dir, Cure: cure, Err: err}
}
