//go:build !linux

package source

import (
	"io/fs"
	"os/exec"
)

// Images are only built on Linux; see Builder.check.
func group(*exec.Cmd)                {}
func isolate(*exec.Cmd)              {}
func stat(info fs.FileInfo) fileStat { return fileStat{mode: int64(info.Mode().Perm())} }
