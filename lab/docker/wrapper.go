package docker

import (
	"os"
	"slices"
)

// Wrapper is the docker command that `lab doctor --fix` installs on hosts without CAP_SYS_RESOURCE: privileged containers get a runtime that does not ask
// for it, if the engine has it.
const Wrapper = "/usr/local/lib/lab/bin/docker"

// WithWrapper is New with the Wrapper in another place.
func WithWrapper(path string) *Docker { return &Docker{program: "docker", wrapper: path} }

// programOf returns the program for arguments of docker: the wrapper, if it exists, for new privileged containers.
func (d *Docker) programOf(args []string) string {
	if args[0] == "run" && slices.Contains(args, "--privileged") {
		if _, err := os.Stat(d.wrapper); err == nil {
			return d.wrapper
		}
	}
	return d.program
}
