package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"homelab/lab"
)

// Limit of the wait for another command, and the polling interval.
const (
	lockLimit = 2 * time.Second
	lockLook  = 100 * time.Millisecond
)

// Lock excludes other commands that change this lab. The kernel releases the lock when the process ends.
func (d *Dir) Lock(ctx context.Context) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockLimit)
	defer cancel()
	file := filepath.Join(d.Path, "lock")
	for {
		if err := d.Create(); err != nil {
			return nil, err
		}
		l := flock.New(file, flock.SetPermissions(0o600))
		ok, err := l.TryLockContext(ctx, lockLook)
		switch {
		case ok && current(l, file):
			_ = os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())), 0o600) // a hint for the error message of others
			if err := self().handOver(file); err != nil {
				return nil, errors.Join(err, l.Unlock())
			}
			return func() { _ = l.Unlock() }, nil
		case ok: // lab down removed the file when it was open
			_ = l.Unlock()
			continue
		case errors.Is(err, fs.ErrNotExist): // lab down removed the folder
			continue
		case errors.Is(err, context.Canceled):
			return nil, err
		case err != nil && !errors.Is(err, context.DeadlineExceeded):
			return nil, writeError(file, err)
		}
		holder, _ := os.ReadFile(file)
		return nil, &lab.Error{
			Exit: lab.ExitFailed, Code: "locked", Message: fmt.Sprintf("lab %s is being changed by another lab command (process %s)", d.Lab, strings.TrimSpace(string(holder))),
			Cure: "wait for it, or stop it",
		}
	}
}

// current reports whether a lock is on the file that other commands would lock.
func current(l *flock.Flock, file string) bool {
	locked, err := l.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(file)
	return err == nil && os.SameFile(locked, now)
}
