package estate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"homelab/lab"
)

const gitignore = `# what a lab keeps beside its estate stays out of Git, and so out of the lab's forge
.env
*.kubeconfig
.task/
`

// Write writes the estate in fsys, with a .gitignore, to dir, which must be absent or empty. It appears whole or not at all: it is written beside dir and moved
// into place.
func Write(fsys fs.FS, dir string) (err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("write the estate: %w", err)
	}
	entries, err := os.ReadDir(dir)
	switch {
	case err == nil && len(entries) > 0:
		return occupied(dir, "it holds "+entries[0].Name())
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return occupied(dir, "it cannot be read as a folder")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("write the estate: %w", err)
	}
	staged, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-")
	if err != nil {
		return fmt.Errorf("write the estate: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(staged))
		}
	}()
	if err := os.Chmod(staged, 0o755); err != nil {
		return fmt.Errorf("write the estate: %w", err)
	}
	for _, folder := range []string{lab.ClustersDir, lab.EnvironmentsDir, lab.AddonsDir, lab.ScenariosDir} {
		if err := writeFolder(fsys, folder, staged); err != nil {
			return fmt.Errorf("write the estate: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(staged, ".gitignore"), []byte(gitignore), 0o644); err != nil {
		return fmt.Errorf("write the estate: %w", err)
	}
	// Rename replaces an empty folder and refuses one that has been filled since.
	if err := os.Rename(staged, dir); err != nil {
		return fmt.Errorf("write the estate: %w", err)
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
