package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"homelab/lab"
	"homelab/lab/supply/disk"
)

// Files of what was learned from registries.
const (
	lockFile  = "registry.lock"
	foundFile = "versions.json"
)

// remember pins a digest on first use and rejects a different one later. It covers what pins.yaml has no digest of.
func (r *Registry) remember(ctx context.Context, what, digest string) error {
	return update(ctx, r, lockFile, "recorded digests", func(seen map[string]string) error {
		if old := seen[what]; old != "" && old != digest {
			return &lab.Error{
				Exit: lab.ExitFailed, Code: "digest_changed", Message: what + " has changed since it was first pulled",
				Cure:    "if the change is intended, remove its line from " + filepath.Join(r.dir, lockFile),
				Details: []string{"first " + old, "now   " + digest},
			}
		}
		seen[what] = digest
		return nil
	})
}

// update changes a file of what was learned, which several labs may do at once.
func update[T any](ctx context.Context, r *Registry, name, content string, change func(map[string]T) error) error {
	file := filepath.Join(r.dir, name)
	guard := flock.New(file + ".guard")
	if _, err := guard.TryLockContext(ctx, 50*time.Millisecond); err != nil {
		return fmt.Errorf("lock %s: %w", file, err)
	}
	defer guard.Unlock()
	before, all, err := read[T](r, name, content)
	if err != nil {
		return err
	}
	if err := change(all); err != nil {
		return err
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil || string(data)+"\n" == before {
		return err
	}
	return disk.WriteFile(file, append(data, '\n'))
}

// read returns a file of what was learned, and its text; both are empty if there is none yet.
func read[T any](r *Registry, name, content string) (string, map[string]T, error) {
	file := filepath.Join(r.dir, name)
	all := map[string]T{}
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, &lab.Error{Exit: lab.ExitFailed, Code: "bad_lock", Message: "the " + content + " are unreadable", Cure: "remove " + file, Err: err}
	}
	return string(data), all, nil
}
