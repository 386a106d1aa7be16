//go:build !linux

package source

import (
	"io/fs"
	"os/exec"
)

// Images are built on Linux alone; see Builder.check.
func group(*exec.Cmd)                {}
func isolate(*exec.Cmd)              {}
func stat(info fs.FileInfo) fileStat { return fileStat{mode: int64(info.Mode().Perm())} }
