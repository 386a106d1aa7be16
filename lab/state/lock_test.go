package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofrs/flock"

	"homelab/lab"
)

func TestLockExclusive(t *testing.T) {
	d := open(t)
	unlock, err := d.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var le *lab.Error
	if _, err := d.Lock(t.Context()); !errors.As(err, &le) || le.Code != "locked" {
		t.Errorf("second lock: %v", err)
	}
	unlock()
	again, err := d.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// A command that waited for lab down locks the new file, not the removed one.
func TestLockOfRemovedFolder(t *testing.T) { synctest.Test(t, lockOfRemovedFolder) }

func lockOfRemovedFolder(t *testing.T) {
	d := open(t)
	down, err := d.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() { _, err := d.Lock(context.WithoutCancel(t.Context())); waiting <- err }()
	synctest.Wait() // it has opened the file to be removed
	if err := d.Remove(); err != nil {
		t.Fatal(err)
	}
	down()
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	var e *lab.Error
	if _, err := d.Lock(t.Context()); !errors.As(err, &e) || e.Code != "locked" {
		t.Errorf("two simultaneous locks: %v", err)
	}
	if _, err := os.Stat(d.Path); err != nil {
		t.Error(err)
	}
}

// A lock on a removed file does not count.
func TestCurrent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	l := flock.New(file)
	if ok, err := l.TryLock(); !ok || err != nil || !current(l, file) {
		t.Fatal(ok, err)
	}
	defer func() { _ = l.Unlock() }()
	if err := os.Remove(file); err != nil || current(l, file) {
		t.Errorf("removed file: %v", err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil || current(l, file) {
		t.Errorf("replaced file: %v", err)
	}
}

func TestLockInterrupted(t *testing.T) {
	d := open(t)
	unlock, err := d.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(lockLook/2, cancel)
	if _, err := d.Lock(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
