package source

import (
	"runtime"

	"homelab/lab"
)

// Need is a requirement of builds on the machine.
type Need struct {
	Program string // on PATH; empty for a library, whose package is checked
	Package string // Debian package; empty if Debian's is too old
}

// Needs returns the requirements. Go has no package: Debian's is older than Kubernetes requires.
func Needs() []Need {
	return []Need{
		{Program: "go"},
		{Program: "debootstrap", Package: "debootstrap"},
		{Program: "gpgv", Package: "gpgv"}, // debootstrap checks signatures with it
		{Package: "debian-archive-keyring"},
		{Program: "gcc", Package: "gcc"}, // for runc, containerd, pause, and SQLite in Gitea
		{Package: "libc6-dev"},
		{Program: "pkg-config", Package: "pkg-config"},
		{Package: "libseccomp-dev"}, // for runc
	}
}

// Possible returns an error if no images for the recipes' architecture can be built on this machine: compilers of C and
// debootstrap make what runs here.
func (r *Recipes) Possible() error {
	if err := Possible(); err != nil || r.arch == runtime.GOARCH {
		return err
	}
	return &lab.Error{
		Exit: lab.ExitFailed, Code: "no_source", Message: "the container engine is " + r.arch + ", and this machine, which would build its images, " + runtime.GOARCH,
		Cure: "use --images registry or --images bundle=FILE",
	}
}

// Possible returns an error if nothing can be built on this machine.
func Possible() error {
	if runtime.GOOS != "linux" {
		return &lab.Error{Exit: lab.ExitFailed, Code: "no_source", Message: "images are built from source on Linux only", Cure: "use --images registry or --images bundle=FILE"}
	}
	return nil
}
