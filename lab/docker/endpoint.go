package docker

import (
	"context"
	"strings"
)

// Endpoint returns where the command line finds its engine, "unix:///var/run/docker.sock", after DOCKER_HOST, DOCKER_CONTEXT and the chosen context.
// It asks the client alone: the engine need not answer.
func (d *Docker) Endpoint(ctx context.Context) (string, error) {
	out, err := d.Output(ctx, nil, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}
