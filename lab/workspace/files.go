package workspace

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"homelab/lab"
	"homelab/lab/estate"
)

// BuiltinName is the name of a lab of the built-in estate.
const BuiltinName = "homelab"

// Files is where the files of an estate are.
type Files struct {
	Dir  string // empty for the built-in estate
	FS   fs.FS
	Name string // of a lab of it

	nobody string // why the built-in estate may not be taken by itself; empty where it may, or is not what this is
}

// Find finds the estate: the folder asked for, else the nearest one around the working folder, else the built-in one. Within a Git repository, or in a folder
// that holds something else, the built-in one is not what anyone meant: that is noted, for commands that would build it.
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
		if _, err := os.Stat(filepath.Join(at, ".git")); err == nil { // a repository's root is as far as an estate reaches
			own.nobody = "no estate in " + at + ": it has no folder " + lab.ClustersDir
			return own, nil
		}
		if filepath.Dir(at) == at {
			if !vacant(wd) {
				own.nobody = "no estate in " + wd + ": it has no folder " + lab.ClustersDir
			}
			return own, nil
		}
	}
}

// named is the estate in a folder that was asked for.
func named(dir string, builtin fs.FS) (Files, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Files{}, err
	}
	none := Files{FS: builtin, Name: estate.DefaultName(abs)}
	switch fi, err := os.Stat(abs); {
	case err != nil || !fi.IsDir():
		none.nobody = "the estate " + dir + " is no folder that can be read"
		return none, nil
	case !isEstate(abs):
		none.nobody = "no estate in " + dir + ": it has no folder " + lab.ClustersDir
		return none, nil
	}
	return onDisk(abs)
}

// Folders names the folders within one of the estate's, and none where it cannot be read.
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

// vacant reports whether nobody would look for an estate in a folder: it is empty, or somebody's home.
func vacant(dir string) bool {
	if home, err := os.UserHomeDir(); err == nil && sameFolder(dir, home) {
		return true
	}
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}

// onDisk is an estate in a folder; links that lead out of it are not followed.
func onDisk(dir string) (Files, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Files{}, fmt.Errorf("estate: %w", err)
	}
	return Files{Dir: dir, FS: root.FS(), Name: estate.DefaultName(dir)}, nil
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
