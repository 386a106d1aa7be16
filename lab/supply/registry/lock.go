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

const lockFile = "registry.lock"

// remember pins a digest on first use and rejects a different one later. It covers what pins.yaml has no digest of.
func (r *Registry) remember(ctx context.Context, what, digest string) error {
	file := filepath.Join(r.dir, lockFile)
	guard := flock.New(file + ".guard") // against concurrent labs
	if _, err := guard.TryLockContext(ctx, 50*time.Millisecond); err != nil {
		return fmt.Errorf("lock %s: %w", file, err)
	}
	defer guard.Unlock()
	seen := map[string]string{}
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &seen)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &lab.Error{Exit: lab.ExitFailed, Code: "bad_lock", Message: "the recorded digests are unreadable", Cure: "remove " + file, Err: err}
	}
	switch old := seen[what]; old {
	case digest:
		return nil
	case "":
	default:
		return &lab.Error{
			Exit: lab.ExitFailed, Code: "digest_changed", Message: what + " has changed since it was first pulled",
			Cure:    "if the change is intended, remove its line from " + file,
			Details: []string{"first " + old, "now   " + digest},
		}
	}
	seen[what] = digest
	if data, err = json.MarshalIndent(seen, "", "  "); err != nil {
		return err
	}
	return disk.WriteFile(file, append(data, '\n'))
}
