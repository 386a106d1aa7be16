// Package docker is the one seam to the container engine. It drives the docker command line, as kind itself does, so that DOCKER_HOST, contexts and
// remote engines mean for lab just what they mean for kind.
package docker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"homelab/lab"
)

// Docker runs the docker command line.
type Docker struct {
	program string
}

// New returns a seam that runs the program "docker" found on PATH.
func New() *Docker { return &Docker{program: "docker"} }

// Error is a docker command that failed.
type Error struct {
	Args   []string
	Stderr string // what it printed, trimmed
	Err    error
}

func (e *Error) Error() string {
	msg := e.Stderr
	if msg == "" {
		msg = e.Err.Error()
	}
	return fmt.Sprintf("docker %s: %s", e.Args[0], msg)
}

func (e *Error) Unwrap() error { return e.Err }

// NotFound says whether err is docker's word that an object does not exist.
func NotFound(err error) bool {
	var de *Error
	if !errors.As(err, &de) {
		return false
	}
	s := strings.ToLower(de.Stderr)
	return strings.Contains(s, "no such") || strings.Contains(s, "not found")
}

// Said says whether err is that of a docker command which printed text.
func Said(err error, text string) bool {
	var de *Error
	return errors.As(err, &de) && strings.Contains(de.Stderr, text)
}

// taken is how engines of several ages say that a port cannot be published, with its address.
var taken = regexp.MustCompile(`(?:Bind for|listen tcp4?|listen udp4?|bind host port(?: for)?) (\d+\.\d+\.\d+\.\d+:\d+).*(?:port is already allocated|address already in use)`)

// PortTaken is the error for a container that did not start because something else listens on a port that it publishes, as the text that docker printed tells;
// nil for any other reason.
func PortTaken(text string) error {
	m := taken.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	return &lab.Error{
		Exit: lab.ExitFailed, Code: "port_taken", Message: "something else on this machine listens on " + m[1],
		Cure: "end it; or choose another port: in cluster.yaml, where extraPortMappings has it, else by lab down and lab up",
	}
}

// Start starts a container.
func (d *Docker) Start(ctx context.Context, container string) error {
	_, err := d.Output(ctx, nil, "start", container)
	var said *Error
	if errors.As(err, &said) {
		return cmp.Or(PortTaken(said.Stderr), err)
	}
	return err
}

// Output runs docker with args and returns its standard output. stdin may be nil. A cancelled context ends the client, gently at first.
func (d *Docker) Output(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	var out bytes.Buffer
	err := d.Run(ctx, stdin, &out, args...)
	return out.Bytes(), err
}

// Run is Output with the standard output copied to stdout as it comes.
func (d *Docker) Run(ctx context.Context, stdin io.Reader, stdout io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, d.program, args...)
	cmd.Stdin = stdin
	cmd.Stdout = stdout
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return &Error{Args: args, Stderr: strings.TrimSpace(stderr.String()), Err: err}
	}
	return nil
}

// Info is what lab reads of `docker info`.
type Info struct {
	ServerVersion   string
	CgroupVersion   string // "1" or "2"
	CgroupDriver    string
	DefaultRuntime  string
	Driver          string // storage driver
	DockerRootDir   string
	NCPU            int
	MemTotal        int64 // bytes
	OSType          string
	Architecture    string
	SecurityOptions []string
}

// Info asks the engine about itself.
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
	if got.ServerVersion == "" && len(got.ServerErrors) == 0 { // since 28 the client ends with 0 and an empty answer when no engine is there
		got.ServerErrors = []string{"no engine answers"}
	}
	if len(got.ServerErrors) > 0 {
		return Info{}, &Error{Args: []string{"info"}, Stderr: strings.Join(got.ServerErrors, "; "), Err: errors.New("no engine")}
	}
	return got.Info, nil
}

// Container is what lab reads of a container.
type Container struct {
	ID      string
	Name    string
	Running bool
	Status  string // created, running, exited, ...
	ImageID string
	Labels  map[string]string
	// Ports maps a container port ("3000/tcp") to the host's ip:port.
	Ports map[string]string
	// Addresses maps a network's name to the container's IPv4 address in it.
	Addresses map[string]string
}

// Containers lists containers, stopped ones too, that pass every filter ("label=k=v", "network=NAME", "name=^/NAME$").
func (d *Docker) Containers(ctx context.Context, filters ...string) ([]Container, error) {
	args := []string{"ps", "--all", "--quiet", "--no-trunc"}
	for _, f := range filters {
		args = append(args, "--filter", f)
	}
	out, err := d.Output(ctx, nil, args...)
	if err != nil {
		return nil, err
	}
	ids := strings.Fields(string(out))
	if len(ids) == 0 {
		return nil, nil
	}
	out, err = d.Output(ctx, nil, append([]string{"container", "inspect"}, ids...)...)
	if err != nil && !NotFound(err) { // one may have gone since it was listed; the others were printed
		return nil, err
	}
	var raw []struct {
		ID, Name, Image string
		State           struct {
			Running bool
			Status  string
		}
		Config          struct{ Labels map[string]string }
		NetworkSettings struct {
			Ports    map[string][]struct{ HostIP, HostPort string }
			Networks map[string]struct{ IPAddress string }
		}
	}
	if err := json.Unmarshal(out, &raw); err != nil {
		return nil, fmt.Errorf("docker container inspect: %w", err)
	}
	list := make([]Container, 0, len(raw))
	for _, r := range raw {
		c := Container{
			ID: r.ID, Name: strings.TrimPrefix(r.Name, "/"), Running: r.State.Running, Status: r.State.Status, ImageID: r.Image,
			Labels: r.Config.Labels, Ports: map[string]string{}, Addresses: map[string]string{},
		}
		for port, binds := range r.NetworkSettings.Ports {
			for _, b := range binds {
				c.Ports[port] = b.HostIP + ":" + b.HostPort
			}
		}
		for name, n := range r.NetworkSettings.Networks {
			c.Addresses[name] = n.IPAddress
		}
		list = append(list, c)
	}
	return list, nil
}

// Exec runs a command in a running container.
func (d *Docker) Exec(ctx context.Context, container string, stdin io.Reader, command ...string) ([]byte, error) {
	args := []string{"exec"}
	if stdin != nil {
		args = append(args, "--interactive")
	}
	return d.Output(ctx, stdin, append(append(args, container), command...)...)
}

// ImageID returns the id (sha256:...) of an image in the engine, and false where it has none.
func (d *Docker) ImageID(ctx context.Context, ref string) (string, bool, error) {
	out, err := d.Output(ctx, nil, "image", "inspect", "--format", "{{.Id}}", ref)
	if NotFound(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return strings.TrimSpace(string(out)), true, nil
}

// Labels turns a map into --label arguments.
func Labels(labels map[string]string) []string {
	var args []string
	for k, v := range labels {
		args = append(args, "--label", k+"="+v)
	}
	return args
}
