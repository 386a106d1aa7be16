package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const pullFile = "pull.json"

// LoadPull reads what is kept of a pull from the forge; where nothing is, into stays as it is.
func (d *Dir) LoadPull(into any) error {
	err := d.read(pullFile, into)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// SavePull keeps v, or nothing where v is nil.
func (d *Dir) SavePull(v any) error {
	if v != nil {
		return d.write(pullFile, v)
	}
	if err := os.Remove(filepath.Join(d.Path, pullFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}
