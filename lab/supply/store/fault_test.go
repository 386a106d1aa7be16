package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"homelab/lab"
	"homelab/lab/supply/disk/disktest"
)

const faultKey = "0123456789abcdef0123456789abcdef"

// whole writes two files.
func whole(_ context.Context, dir string) (Meta, error) {
	return Meta{}, errors.Join(os.WriteFile(filepath.Join(dir, "a"), []byte("aaaa"), 0o644), os.WriteFile(filepath.Join(dir, "b"), []byte("bb"), 0o644))
}

// After a failure at any step, there is no result, and it can be rebuilt.
func TestFaults(t *testing.T) {
	full := func(path string) error { return &os.PathError{Op: "write", Path: path, Err: syscall.ENOSPC} }
	for name, broken := range map[string]func(*steps){
		"the files are not on the disk": func(s *steps) { s.sync = full },
		"the meta file is not written": func(s *steps) {
			s.write = func(name string, data []byte) error {
				_ = os.WriteFile(name, data[:len(data)/2], 0o644) // partially written
				return full(name)
			}
		},
		"the rename fails":              func(s *steps) { s.rename = func(_, to string) error { return full(to) } },
		"the folder is not on the disk": func(s *steps) { s.settle = full },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := Open(dir)
			broken(&s.steps)
			_, err := s.Make(t.Context(), "x", faultKey, nil, whole)
			wantNoSpace(t, err, dir)
			again := Open(dir)
			if e, ok, err := again.Lookup("x", faultKey); err != nil || ok && (e.Size != 6 || len(e.files(t)) != 3) {
				t.Errorf("partial result found: %+v, %v", e, err)
			}
			e, err := again.Make(t.Context(), "x", faultKey, nil, whole)
			if err != nil || e.Size != 6 || len(e.files(t)) != 3 {
				t.Errorf("%+v, %v", e, err)
			}
			if left, err := os.ReadDir(again.work()); err != nil || len(left) > 0 {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}

func (e Entry) files(t *testing.T) []os.DirEntry {
	t.Helper()
	list, err := os.ReadDir(e.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func wantNoSpace(t *testing.T, err error, dir string) {
	t.Helper()
	var e *lab.Error
	if !errors.As(err, &e) || e.Code != "no_space" || !strings.Contains(e.Message, dir) || !strings.Contains(e.Cure, "df -h "+dir) {
		t.Errorf("got %v, want one that names %s and the cure", err, dir)
	}
}

func TestFullDisk(t *testing.T) {
	dir := disktest.Tiny(t, 256<<10)
	s := Open(dir)
	small, err := s.Make(t.Context(), "small", faultKey, nil, whole)
	if err != nil {
		t.Fatal(err)
	}
	large := func(_ context.Context, dir string) (Meta, error) {
		return Meta{}, os.WriteFile(filepath.Join(dir, "image.tar"), bytes.Repeat([]byte("x"), 1<<20), 0o644)
	}
	_, err = s.Make(t.Context(), "large", faultKey, nil, large)
	wantNoSpace(t, err, dir)
	if _, ok, err := s.Lookup("large", faultKey); ok || err != nil {
		t.Errorf("partial image found: %v", err)
	}
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	if err := filler.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(small); err != nil { // old results are removed even if the disk is full
		t.Error(err)
	}
}
