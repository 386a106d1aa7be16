package state

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"time"

	"homelab/lab"
)

// trustDir is the folder of the agreements within Root. No lab can have its name, and lab down leaves it.
const trustDir = ".trust"

// agreement is what the user has agreed to for one estate.
type agreement struct {
	Format int               `json:"format"`
	Estate string            `json:"estate"` // absolute path
	Since  time.Time         `json:"since"`  // last change
	Things map[string]string `json:"things"` // digest -> text as shown
}

// agreementOf returns the folder and the file of an estate's agreement.
func agreementOf(estate string) (*Dir, string, string, error) {
	root, err := Root()
	if err != nil {
		return nil, "", "", err
	}
	if real, err := filepath.EvalSymlinks(estate); err == nil {
		estate = real
	}
	sum := sha256.Sum256([]byte(estate))
	return &Dir{Path: filepath.Join(root, trustDir)}, hex.EncodeToString(sum[:8]) + ".json", estate, nil
}

// Agreed returns the digests of what the user has agreed to for the estate in a folder. An unreadable agreement counts as none: lab asks again.
func Agreed(estate string) (map[string]bool, error) {
	dir, name, _, err := agreementOf(estate)
	if err != nil {
		return nil, err
	}
	a, err := dir.agreement(name)
	agreed := map[string]bool{}
	for digest := range a.Things {
		agreed[digest] = true
	}
	return agreed, err
}

// Agree adds things, by digest, to what was agreed to for the estate in a folder.
func Agree(estate string, things map[string]string) error {
	dir, name, estate, err := agreementOf(estate)
	if err != nil {
		return err
	}
	a, err := dir.agreement(name)
	if err != nil {
		return err
	}
	all := map[string]string{}
	maps.Copy(all, a.Things)
	maps.Copy(all, things)
	a = agreement{Format: format, Estate: estate, Since: time.Now().UTC().Truncate(time.Second), Things: all}
	return dir.writeJSON(name, a)
}

func (d *Dir) agreement(name string) (agreement, error) {
	var a agreement
	err := d.read(name, &a)
	var e *lab.Error
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &e) && e.Code == CodeGarbled {
		return agreement{}, nil
	}
	return a, err
}
