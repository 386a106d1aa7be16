package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"homelab/lab"
)

const pullFile = "pull.json"

// LoadPull reads the state of a pull; without one, into is unchanged.
func (d *Dir) LoadPull(into any) error {
	err := d.read(pullFile, into)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var e *lab.Error
	if errors.As(err, &e) && e.Code == CodeGarbled { // only the user knows its content
		e.Cure = "it lists what lab git pull left to merge: resolve " + `"<<<<<<<"` + " and *.forge in the estate, then rm " + lab.Quote(filepath.Join(d.Path, pullFile))
	}
	return err
}

// SavePull writes the state of a pull; nil deletes it.
func (d *Dir) SavePull(v any) error {
	if v != nil {
		return d.write(pullFile, v)
	}
	if err := os.Remove(filepath.Join(d.Path, pullFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}
