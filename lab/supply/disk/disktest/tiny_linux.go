// Package disktest makes disks that are soon full.
package disktest

import (
	"os"
	"strconv"
	"syscall"
	"testing"
)

// Tiny returns a folder on a file system of its own with room for so many bytes. It skips the test where none can be mounted.
func Tiny(t testing.TB, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if os.Geteuid() != 0 {
		t.Skip("only root mounts file systems")
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(bytes)); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
