//go:build !linux

// Package disktest provides small file systems for tests of full disks.
package disktest

import "testing"

// Tiny skips the test: mounting is implemented on Linux only.
func Tiny(t testing.TB, _ int) string {
	t.Skip("needs Linux")
	return ""
}
