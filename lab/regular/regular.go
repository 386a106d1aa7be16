// Package regular reads files of strangers: only regular ones, as a pipe or a device might be read forever.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Small is a limit for files of a few lines.
const Small = 1 << 20

// errKind is the error of a file that is not regular.
var errKind = errors.New("not a regular file")

// Read reads a file of at most limit bytes; 0 means any number. A link is followed.
func Read(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer opens, too
	return all(f, err, path, limit)
}

// In reads a file of a folder, and none outside.
func In(root *os.Root, name string) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	return all(f, err, name, 0)
}

func all(f *os.File, err error, name string, limit int64) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: name, Err: errKind}
	case limit > 0 && info.Size() > limit:
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("more than %d bytes", limit)}
	}
	return io.ReadAll(f)
}
