package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"homelab/lab"
	"homelab/lab/estate"
	"homelab/lab/gitfiles"
)

// BuiltinName is the lab name of the built-in estate.
const BuiltinName = "homelab"

// Files locates the files of an estate.
type Files struct {
	Dir  string // empty for the built-in estate
	FS   fs.FS
	Name string // of its lab

	open func(dir, where string) (fs.FS, error) // opens mounted repositories; nil for those that are checked out

	doubt string // why the built-in estate needs --builtin; empty if it does not
}

// Find finds the estate: the given folder, else the nearest enclosing one, else the built-in one. Within a Git repository or a folder with other content, the
// built-in one is probably not meant, which is noted for commands that would build it.
func Find(dir string, builtin fs.FS) (Files, error) {
	if dir != "" {
		return named(dir, builtin)
	}
	wd, err := os.Getwd()
	if err != nil {
		return Files{}, fmt.Errorf("working folder: %w", err)
	}
	for at := wd; ; at = filepath.Dir(at) {
		if isEstate(at) {
			return onDisk(at)
		}
		own := Files{FS: builtin, Name: BuiltinName}
		if _, err := os.Stat(filepath.Join(at, ".git")); err == nil { // an estate does not reach beyond its repository
			own.doubt = "no estate in " + at + ": no folder " + lab.ClustersDir
			return own, nil
		}
		if filepath.Dir(at) == at {
			if !vacant(wd) {
				own.doubt = "no estate in " + wd + ": no folder " + lab.ClustersDir
			}
			return own, nil
		}
	}
}

// named returns the estate in a given folder.
func named(dir string, builtin fs.FS) (Files, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Files{}, err
	}
	none := Files{FS: builtin, Name: estate.DefaultName(abs)}
	switch fi, err := os.Stat(abs); {
	case err != nil || !fi.IsDir():
		none.doubt = "cannot read estate folder " + dir
		return none, nil
	case !isEstate(abs):
		none.doubt = "no estate in " + dir + ": no folder " + lab.ClustersDir
		return none, nil
	}
	return onDisk(abs)
}

// Folders returns the names of the folders in a folder of the estate.
func (f Files) Folders(dir string) []string {
	entries, err := fs.ReadDir(f.FS, dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

func isEstate(dir string) bool {
	fi, err := os.Stat(filepath.Join(dir, lab.ClustersDir))
	return err == nil && fi.IsDir()
}

// vacant reports whether a folder is empty or the user's home.
func vacant(dir string) bool {
	if home, err := os.UserHomeDir(); err == nil && sameFolder(dir, home) {
		return true
	}
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}

// onDisk returns the estate in a folder: the files that Git lists there. Links out of it are not followed.
func onDisk(dir string) (Files, error) {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New("is a file")
	}
	if err != nil {
		return Files{}, fmt.Errorf("estate: %w", err)
	}
	return Files{Dir: dir, FS: gitfiles.OfFolder(dir), Name: estate.DefaultName(dir)}, nil
}

// refresh lists the files of an estate on disk again.
func (f Files) refresh() error {
	if w, ok := f.FS.(*gitfiles.Worktree); ok {
		return w.Refresh(context.Background())
	}
	return nil
}

func sameFolder(a, b string) bool {
	if a == b {
		return true
	}
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
