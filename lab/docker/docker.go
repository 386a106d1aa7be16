// Package docker drives the docker command line, as Kind does: DOCKER_HOST, contexts and remote engines apply to lab as
// they do to Kind.
package docker

import "time"

// Docker runs the docker command.
type Docker struct {
	program  string
	wrapper  string        // path of Wrapper
	patience time.Duration // if the engine does not answer; default answerLimit or endLimit
}

// New returns a Docker for the "docker" on PATH.
func New() *Docker { return WithWrapper(Wrapper) }

// Labels returns --label arguments.
func Labels(labels map[string]string) []string {
	var args []string
	for k, v := range labels {
		args = append(args, "--label", k+"="+v)
	}
	return args
}
