//go:build linux || darwin

package archive

import "golang.org/x/sys/unix"

// freeBytes returns the space available to the user on the disk of dir.
func freeBytes(dir string) (int64, bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
