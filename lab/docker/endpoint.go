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

// Identity returns the engine's id, empty if it has none, and its address, which may change while the engine stays the same.
func (d *Docker) Identity(ctx context.Context) (id, address string, err error) {
	info, err := d.answer(ctx)
	if err != nil {
		return "", "", err
	}
	address, err = d.Endpoint(ctx)
	return info.ID, address, err
}
