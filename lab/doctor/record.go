package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"homelab/lab"
)

// Kinds of changes.
const (
	changedFile     = "file"
	changedEngine   = "daemon.json" // a file with settings of others, of which undo removes only lab's
	changedSetting  = "setting"     // of the kernel
	changedPackages = "packages"
	changedProcess  = "process"
)

// change is something that Fix changed on the host. It is recorded before it is made, so that a killed run leaves no change without a record.
type change struct {
	Kind   string      `json:"kind"`
	What   string      `json:"what"`   // path, setting, or names
	Before *string     `json:"before"` // content or value; null if there was none
	After  string      `json:"after"`
	Mode   fs.FileMode `json:"mode"` // of the file before
	When   time.Time   `json:"when"`
}

// record is the document in Host.Record, which only root can read: daemon.json may have the password of a proxy.
type record struct {
	Format  int      `json:"format"`
	Changes []change `json:"changes"`
}

// recordFormat is the version of the record.
const recordFormat = 1

func (h Host) readRecord() (record, error) {
	r := record{Format: recordFormat}
	data, err := os.ReadFile(h.Record)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err == nil && r.Format > recordFormat {
		err = fmt.Errorf("it has format %d, this version of lab supports %d", r.Format, recordFormat)
	}
	if err != nil {
		return r, &lab.Error{
			Exit: lab.ExitFailed, Code: "doctor_record", Message: "cannot read the record of changes " + h.Record, Err: err,
			Cure: "use the version that wrote it, or repair it",
		}
	}
	return r, nil
}

// writeRecord replaces the record; an empty one is removed.
func (h Host) writeRecord(r record) error {
	if len(r.Changes) == 0 {
		if err := os.Remove(h.Record); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	r.Format = recordFormat
	data, err := encode(r)
	if err != nil {
		return err
	}
	return writeAtomic(h.Record, data, 0o600)
}

// note adds a change to the record.
func (h Host) note(c change) error {
	r, err := h.readRecord()
	if err != nil {
		return err
	}
	c.When = time.Now().UTC().Truncate(time.Second)
	r.Changes = append(r.Changes, c)
	return h.writeRecord(r)
}

// replace writes a file and records what was there. Nothing happens if the file has this content already.
func (h Host) replace(kind, path string, data []byte, mode fs.FileMode) error {
	old, err := os.ReadFile(path)
	c := change{Kind: kind, What: path, After: string(data)}
	switch info, statErr := os.Stat(path); {
	case err == nil && statErr == nil:
		if bytes.Equal(old, data) && info.Mode().Perm()&mode == mode {
			return nil
		}
		before := string(old)
		c.Before, c.Mode = &before, info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := h.note(c); err != nil {
		return err
	}
	if err := writeAtomic(path, data, mode); err != nil {
		return err
	}
	if kind == changedFile { // an existing one kept its mode
		return os.Chmod(path, mode)
	}
	return nil
}

// backupName is the copy of a file before a change; the numbers only grow.
func backupName(file string, n int) string { return file + ".before-lab-" + strconv.Itoa(n) }

// backup copies a file beside it, under a name that no file had, with its mode. It returns the name.
func backup(file string, data []byte) (string, error) {
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	for n := 1; ; n++ {
		name := backupName(file, n)
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.Write(data)
		return name, errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	}
}

// backups returns the copies of a file, the newest first, and last the one that versions before numbers wrote.
func backups(file string) []string {
	list := []string{file + ".before-lab"}
	for n := 1; ; n++ {
		if _, err := os.Stat(backupName(file, n)); err != nil {
			return list
		}
		list = append([]string{backupName(file, n)}, list...)
	}
}

// writeAtomic replaces a file atomically. Mode and symlinks are preserved.
func writeAtomic(path string, data []byte, mode fs.FileMode) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
		if info, err := os.Stat(path); err == nil {
			mode = info.Mode().Perm()
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
