package docker

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Start starts a container. If its network was recreated meanwhile, it is reconnected to the new one.
func (d *Docker) Start(ctx context.Context, container, network string) error {
	_, err := d.Output(ctx, nil, "start", container)
	if errors.Is(err, errNoNetwork) {
		if err := d.reconnect(ctx, container, network); err != nil {
			return err
		}
		_, err = d.Output(ctx, nil, "start", container)
	}
	var de *Error
	if errors.As(err, &de) {
		return cmp.Or(PortTaken(de.Stderr), err)
	}
	return err
}

// reconnect connects a container to the current network of a name.
func (d *Docker) reconnect(ctx context.Context, container, network string) error {
	if _, err := d.Output(ctx, nil, "network", "disconnect", "--force", network, container); err != nil && !errors.Is(err, errNotConnected) {
		return err
	}
	return d.Connect(ctx, container, network)
}

// Connect connects a container to a network, if not connected yet.
func (d *Docker) Connect(ctx context.Context, container, network string) error {
	_, err := d.Output(ctx, nil, "network", "connect", network, container)
	if errors.Is(err, errConnected) {
		return nil
	}
	return err
}

// Rejoin connects a container to a network under further host names, also if it is connected without them.
func (d *Docker) Rejoin(ctx context.Context, container, network string, aliases ...string) error {
	if _, err := d.Output(ctx, nil, "network", "disconnect", "--force", network, container); err != nil && !errors.Is(err, errNotConnected) {
		return err
	}
	args := []string{"network", "connect"}
	for _, a := range aliases {
		args = append(args, "--alias", a)
	}
	_, err := d.Output(ctx, nil, append(args, network, container)...)
	return err
}

// Unpause unpauses a container.
func (d *Docker) Unpause(ctx context.Context, container string) error {
	_, err := d.Output(ctx, nil, "unpause", container)
	return err
}

// Pause pauses a container.
func (d *Docker) Pause(ctx context.Context, container string) error {
	_, err := d.Output(ctx, nil, "pause", container)
	return err
}

// Exec runs a command in a running container.
func (d *Docker) Exec(ctx context.Context, container string, stdin io.Reader, command ...string) ([]byte, error) {
	args := []string{"exec"}
	if stdin != nil {
		args = append(args, "--interactive")
	}
	return d.Output(ctx, stdin, append(append(args, container), command...)...)
}

// Logs returns the last lines that a container wrote to stdout and stderr, in the order in which docker prints them.
func (d *Docker) Logs(ctx context.Context, container string, lines int) ([]byte, error) {
	cmd := exec.CommandContext(ctx, d.program, "logs", "--tail", strconv.Itoa(lines), container)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, &Error{Args: []string{"logs"}, Stderr: strings.TrimSpace(string(out)), Err: cmp.Or(ctx.Err(), err)}
	}
	return out, nil
}

// Follow writes the last lines of a container's output, and what it writes until it or the context ends.
func (d *Docker) Follow(ctx context.Context, container string, lines int, to io.Writer) error {
	cmd := exec.CommandContext(ctx, d.program, "logs", "--follow", "--tail", strconv.Itoa(lines), container)
	cmd.WaitDelay = 5 * time.Second
	cmd.Stdout, cmd.Stderr = to, to
	err := cmd.Run()
	return cmp.Or(ctx.Err(), err)
}

// File reads a file of a container in any state.
func (d *Docker) File(ctx context.Context, container, path string) ([]byte, error) {
	out, err := d.Output(ctx, nil, "cp", container+":"+path, "-")
	if err != nil {
		return nil, err
	}
	archive := tar.NewReader(bytes.NewReader(out))
	if _, err := archive.Next(); err != nil {
		return nil, fmt.Errorf("docker cp %s: %w", path, err)
	}
	text, err := io.ReadAll(archive)
	if err != nil {
		return nil, fmt.Errorf("docker cp %s: %w", path, err)
	}
	return text, nil
}
