package docker

import (
	"context"
	"strings"
)

// Endpoint returns the engine's address, "unix:///var/run/docker.sock", from DOCKER_HOST, DOCKER_CONTEXT or the current
// context. It does not contact the engine.
func (d *Docker) Endpoint(ctx context.Context) (string, error) {
	out, err := d.Output(ctx, nil, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

// ID returns the engine's id, empty if it has none. It does not depend on the address.
func (d *Docker) ID(ctx context.Context) (string, error) {
	info, err := d.answer(ctx)
	return info.ID, err
}
