// Package writeout writes an estate to a folder.
package writeout

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"homelab/lab"
)

const gitignore = `# lab state: kept out of Git, and so out of the forge
.env
*.kubeconfig
.task/
/repositories/
`

// Estate writes the estate in fsys, with a .gitignore, to dir, which must be missing or empty, atomically.
func Estate(fsys fs.FS, dir string) (err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("write the estate: %w", err)
	}
	entries, err := os.ReadDir(dir)
	there := err == nil
	switch {
	case there && len(entries) > 0:
		return occupied(dir, "it contains "+entries[0].Name())
	case !there && !errors.Is(err, fs.ErrNotExist):
		return occupied(dir, "it is not a readable folder")
	}
	// An empty folder is kept and filled, as it may be a shell's working directory (lab init .); a missing one is
	// created by a rename.
	aside := filepath.Dir(dir)
	if there {
		aside = dir
	}
	if err := os.MkdirAll(aside, 0o755); err != nil {
		return fmt.Errorf("write the estate: %w", err)
	}
	staged, err := os.MkdirTemp(aside, ".lab-init-")
	if err != nil {
		return fmt.Errorf("write the estate: %w", err)
	}
	defer func() {
		if left := os.RemoveAll(staged); err == nil && left != nil {
			err = fmt.Errorf("write the estate: %w", left)
		}
	}()
	if err := stage(fsys, staged); err != nil {
		return fmt.Errorf("write the estate: %w", err)
	}
	if !there {
		err = os.Rename(staged, dir)
	} else {
		err = moveInto(staged, dir)
	}
	if err != nil {
		return fmt.Errorf("write the estate: %w", err)
	}
	return nil
}

func stage(fsys fs.FS, dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for _, folder := range []string{lab.ClustersDir, lab.EnvironmentsDir, lab.AddonsDir, lab.ScenariosDir} {
		if err := writeFolder(fsys, folder, dir); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(gitignore), 0o644)
}

// moveInto moves all entries of a folder, or none.
func moveInto(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for i, e := range entries {
		if err := os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			for _, moved := range entries[:i] {
				err = errors.Join(err, os.Rename(filepath.Join(to, moved.Name()), filepath.Join(from, moved.Name())))
			}
			return err
		}
	}
	return nil
}

func occupied(dir, why string) error {
	return &lab.Error{Exit: lab.ExitInvalid, Code: "not_empty", Message: fmt.Sprintf("%s is not empty: %s", dir, why), Cure: "name a new or empty folder"}
}

func writeFolder(fsys fs.FS, folder, to string) error {
	if _, err := fs.Stat(fsys, folder); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fs.WalkDir(fsys, folder, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := filepath.Join(to, filepath.FromSlash(file))
		if e.IsDir() {
			return os.MkdirAll(at, 0o755)
		}
		data, err := fs.ReadFile(fsys, file)
		if err != nil {
			return err
		}
		return os.WriteFile(at, data, 0o644)
	})
}
