package source

import (
	"runtime"

	"homelab/lab"
)

// Need is what building takes of the machine.
type Need struct {
	Program string // looked for on PATH; empty for a library, whose package is looked for
	Package string // Debian's package that brings it; empty where Debian's is too old and a user must install it
}

// Needs lists what building takes of the machine. Go comes without a package: Debian's is older than what Kubernetes asks for.
func Needs() []Need {
	return []Need{
		{Program: "go"},
		{Program: "debootstrap", Package: "debootstrap"},
		{Program: "gcc", Package: "gcc"}, // runc, containerd, SQLite in Gitea, pause
		{Package: "libc6-dev"},
		{Program: "pkg-config", Package: "pkg-config"},
		{Package: "libseccomp-dev"}, // runc
	}
}

// Possible says why nothing can be built on this machine, where nothing can.
func Possible() error {
	if runtime.GOOS != "linux" {
		return &lab.Error{Exit: lab.ExitFailed, Code: "no_source", Message: "images are built from source on Linux only", Cure: "use --images registry or --images bundle=FILE"}
	}
	return nil
}
