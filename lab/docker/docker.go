// Package docker drives the docker command line, as Kind does: DOCKER_HOST, contexts and remote engines apply to lab as
// they do to Kind.
package docker

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"homelab/lab"
)

// Docker runs the docker command.
type Docker struct {
	program  string
	wrapper  string        // path of Wrapper
	patience time.Duration // if the engine does not answer; default answerLimit or endLimit
}

// New returns a Docker for the "docker" on PATH.
func New() *Docker { return WithWrapper(Wrapper) }

// Error is a failed docker command.
type Error struct {
	Args   []string
	Stderr string // trimmed
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

// silent matches errors of a client that could not reach its engine. They contain "no such file" and "not found", too, but about sockets, hosts and contexts.
var silent = regexp.MustCompile(`(?i)cannot connect to the docker daemon|failed to connect to the docker API|error during connect|failed to initialize|docker endpoint|\bdial (?:unix|tcp)`)

// NotFound reports whether err means that an object does not exist.
func NotFound(err error) bool {
	var de *Error
	if !errors.As(err, &de) || silent.MatchString(de.Stderr) {
		return false
	}
	s := strings.ToLower(de.Stderr)
	return strings.Contains(s, "no such") || strings.Contains(s, "not found")
}

// Reports reports whether err is a docker error that contains text.
func Reports(err error, text string) bool {
	var de *Error
	return errors.As(err, &de) && strings.Contains(de.Stderr, text)
}

// taken matches the error of an occupied port, in several engine versions' words.
var taken = regexp.MustCompile(`(?:Bind for|listen tcp4?|listen udp4?|bind host port(?: for)?) (\d+\.\d+\.\d+\.\d+:\d+).*(?:port is already allocated|address already in use)`)

// PortTaken returns an error if docker's output reports an occupied port, else nil.
func PortTaken(text string) error {
	m := taken.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	return &lab.Error{
		Exit: lab.ExitFailed, Code: "port_taken", Message: "another process listens on " + m[1],
		Cure: "stop it or choose another port: extraPortMappings in cluster.yaml, else lab down and lab up",
	}
}

// Start starts a container. If its network was recreated meanwhile, it is reconnected to the new one.
func (d *Docker) Start(ctx context.Context, container, network string) error {
	_, err := d.Output(ctx, nil, "start", container)
	if Reports(err, "network ") && Reports(err, " not found") {
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
	if _, err := d.Output(ctx, nil, "network", "disconnect", "--force", network, container); err != nil && !Reports(err, "is not connected") {
		return err
	}
	return d.Connect(ctx, container, network)
}

// Connect connects a container to a network, if not connected yet.
func (d *Docker) Connect(ctx context.Context, container, network string) error {
	_, err := d.Output(ctx, nil, "network", "connect", network, container)
	if Reports(err, "already exists in network") {
		return nil
	}
	return err
}

// Unpause unpauses a container.
func (d *Docker) Unpause(ctx context.Context, container string) error {
	_, err := d.Output(ctx, nil, "unpause", container)
	return err
}

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

// Container is an inspected container.
type Container struct {
	ID      string
	Name    string
	Running bool      // possibly paused
	Status  string    // created, running, paused, exited, ...
	Started time.Time // last start, by the engine's clock; zero if never
	ImageID string
	Labels  map[string]string
	// Ports maps a container port ("3000/tcp") to the host's ip:port or [ip]:port; empty unless running.
	Ports map[string]string
	// Published is the configured Ports, whether running or not.
	Published map[string]string
	// Addresses maps networks to the container's IPv4 address.
	Addresses map[string]string
	// Network is the network that the container was created in, connected or not.
	Network string
	// Volumes maps mount points to volumes.
	Volumes map[string]string
}

// Paused reports whether the container is paused.
func (c Container) Paused() bool { return c.Status == "paused" }

// Containers lists containers in any state that match all filters ("label=k=v", "network=NAME", "name=^/NAME$").
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
	if err != nil && !NotFound(err) { // one may be gone by now; the others were printed
		return nil, err
	}
	var raw []struct {
		ID, Name, Image string
		State           struct {
			Running   bool
			Status    string
			StartedAt time.Time
		}
		Config     struct{ Labels map[string]string }
		HostConfig struct {
			NetworkMode  string
			PortBindings map[string][]struct{ HostIP, HostPort string }
		}
		NetworkSettings struct {
			Ports    map[string][]struct{ HostIP, HostPort string }
			Networks map[string]struct{ IPAddress string }
		}
		Mounts []struct{ Name, Destination string }
	}
	if err := json.Unmarshal(out, &raw); err != nil {
		return nil, fmt.Errorf("docker container inspect: %w", err)
	}
	list := make([]Container, 0, len(raw))
	for _, r := range raw {
		c := Container{
			ID: r.ID, Name: strings.TrimPrefix(r.Name, "/"), Running: r.State.Running, Status: r.State.Status, Started: r.State.StartedAt, ImageID: r.Image,
			Labels: r.Config.Labels, Network: r.HostConfig.NetworkMode, Ports: map[string]string{}, Published: map[string]string{}, Addresses: map[string]string{}, Volumes: map[string]string{},
		}
		for port, binds := range r.HostConfig.PortBindings {
			for _, b := range binds {
				c.Published[port] = net.JoinHostPort(b.HostIP, b.HostPort)
			}
		}
		for port, binds := range r.NetworkSettings.Ports {
			for _, b := range binds {
				c.Ports[port] = net.JoinHostPort(b.HostIP, b.HostPort)
			}
		}
		for name, n := range r.NetworkSettings.Networks {
			c.Addresses[name] = n.IPAddress
		}
		for _, m := range r.Mounts {
			if m.Name != "" {
				c.Volumes[m.Destination] = m.Name
			}
		}
		list = append(list, c)
	}
	return list, nil
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

// Published returns the configured ports of a network's containers, by container and port ("3000/tcp"), running or not.
func (d *Docker) Published(ctx context.Context, network string) (map[string]map[string]string, error) {
	list, err := d.Containers(ctx, "network="+network)
	if err != nil {
		return nil, err
	}
	ports := map[string]map[string]string{}
	for _, c := range list {
		ports[c.Name] = c.Published
	}
	return ports, nil
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

// LoadImage loads an image from its archive, unless present. An image without an archive must be present.
func (d *Docker) LoadImage(ctx context.Context, image lab.Image, p lab.Progress) error {
	id, found, err := d.ImageID(ctx, image.Ref)
	if err != nil || found && (id == image.Digest || image.Archive == "") {
		return err
	}
	if found {
		if same, err := d.holds(ctx, image); same || err != nil {
			return err
		}
	}
	p("loading " + image.Ref)
	f, err := os.Open(image.Archive)
	if err != nil {
		return fmt.Errorf("image %s: %w", image.Name, err)
	}
	defer f.Close()
	_, err = d.Output(ctx, f, "load", "--quiet")
	return err
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

// NoFile reports whether err means that an existing container lacks a file.
func NoFile(err error) bool {
	var de *Error
	if !errors.As(err, &de) || silent.MatchString(de.Stderr) {
		return false
	}
	return Reports(err, "Could not find the file") || Reports(err, "No such container:path") || Reports(err, "no such file or directory")
}

// ImageID returns the engine's id (sha256:...) of an image, or false: the digest of its configuration, or with containerd's
// image store, the default since Docker 29, of the manifest that the engine made for it.
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

// Labels returns --label arguments.
func Labels(labels map[string]string) []string {
	var args []string
	for k, v := range labels {
		args = append(args, "--label", k+"="+v)
	}
	return args
}
