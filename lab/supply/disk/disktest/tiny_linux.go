// Package disktest provides small file systems for tests of full disks.
package disktest

import (
	"os"
	"strconv"
	"syscall"
	"testing"
)

// Tiny mounts a file system of the given size and returns its folder. It skips the test if that is not possible.
func Tiny(t testing.TB, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(bytes)); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
