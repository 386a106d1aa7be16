package docker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"homelab/lab"
)

// Info is the part of `docker info` that lab reads.
type Info struct {
	ID              string // of the engine; stored with its data
	ServerVersion   string
	CgroupVersion   string // "1" or "2"
	CgroupDriver    string
	DefaultRuntime  string
	Runtimes        map[string]any // by name
	Driver          string         // storage driver
	DockerRootDir   string
	NCPU            int
	MemTotal        int64 // bytes
	OSType          string
	Architecture    string
	SecurityOptions []string
}

// Info queries the engine.
func (d *Docker) Info(ctx context.Context) (Info, error) {
	out, err := d.Output(ctx, nil, "info", "--format", "{{json .}}")
	if err != nil {
		return Info{}, err
	}
	var got struct {
		Info
		ServerErrors []string
	}
	if err := json.Unmarshal(out, &got); err != nil {
		return Info{}, fmt.Errorf("docker info: %w", err)
	}
	if got.ServerVersion == "" && len(got.ServerErrors) == 0 { // since 28 the client exits with 0 and an empty answer if there is no engine
		got.ServerErrors = []string{"no engine answers"}
	}
	if len(got.ServerErrors) > 0 {
		return Info{}, &Error{Args: []string{"info"}, Stderr: strings.Join(got.ServerErrors, "; "), Err: errors.New("no engine")}
	}
	return got.Info, nil
}

// answerLimit bounds the wait for the engine's answer. A stopped daemon accepts connections, and the client waits forever.
const answerLimit = 20 * time.Second

// Answers returns an error with a cure if the engine does not answer.
func (d *Docker) Answers(ctx context.Context) error {
	_, err := d.answer(ctx)
	return err
}

func (d *Docker) answer(ctx context.Context) (Info, error) {
	limit := cmp.Or(d.patience, answerLimit)
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	info, err := d.Info(limited)
	switch {
	case err == nil:
		return info, nil
	case ctx.Err() != nil:
		return Info{}, context.Cause(ctx)
	case limited.Err() != nil:
		err = context.Cause(limited)
	}
	return Info{}, &lab.Error{Exit: lab.ExitFailed, Code: "no_engine", Message: "the docker engine does not answer", Cure: "run lab doctor", Err: err}
}

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

// Arch returns the architecture of the engine, "amd64", which need not be that of lab's machine.
func (d *Docker) Arch(ctx context.Context) (string, error) {
	out, err := d.Output(ctx, nil, "version", "--format", "{{.Server.Arch}}")
	return strings.TrimSpace(string(out)), err
}
