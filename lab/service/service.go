// Package service runs the optional parts of a lab: containers on its network, beside the forge.
package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
)

// Spec describes a service's container. It runs without capabilities, without further privileges, and restarts with the
// container engine. Secrets belong in Files: `docker inspect` shows Command and Env.
type Spec struct {
	Name      string            // of the part: "registry"; also its host name in the lab's network
	Command   []string          // replaces the image's entrypoint
	Env       map[string]string // in the container
	User      string            // "UID:GID"; empty for the image's
	Files     []File            // written before each start
	Volume    string            // mount point of a volume that outlives the container; empty for none
	Ports     []Port            // published on 127.0.0.1
	Networks  []string          // besides the lab's, which must exist
	Alone     bool              // not in the lab's network: in Networks only, or in none
	Mounts    map[string]string // volumes of other parts, read-only -> mount point
	Tmpfs     map[string]string // mount point of a file system in memory -> its options
	Aliases   []string          // host names in all networks, besides Name
	Caps      []string          // capabilities that it keeps, "NET_BIND_SERVICE"
	Memory    int64             // bytes; 0 for no limit
	Processes int               // 0 for no limit
	CPUs      float64           // 0 for no limit
	ReadOnly  bool              // root file system; files are then written to the volume alone
	Health    Health            `json:"-"` // nil if running is enough
}

// File is a file in the container.
type File struct {
	Path  string // absolute; its folder is created. With a "/" at its end, it is a folder
	Data  []byte
	Mode  int64 // 0 for 0600
	Owner int   // uid and gid of the file and the folders that are created
}

// Port is a port of the container, published on 127.0.0.1.
type Port struct {
	Container int
	Prefer    int // on this machine; if it is taken, the next free one is used, and kept
}

// Running is a running container.
type Running struct {
	Addresses map[int]string                                               // container port -> "127.0.0.1:5000"
	Exec      func(ctx context.Context, command ...string) ([]byte, error) // in the container
}

// Health returns nil if the service works.
type Health func(ctx context.Context, r Running) error

// Get returns a Health that needs a successful answer to a GET. An empty user sends no credentials.
func Get(port int, path, user, password string) Health {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // without a proxy
	return func(ctx context.Context, r Running) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Addresses[port]+path, nil)
		if err != nil {
			return err
		}
		if user != "" {
			req.SetBasicAuth(user, password)
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			return fmt.Errorf("%s answers %s", req.URL.Path, resp.Status)
		}
		return nil
	}
}

// Ports keeps the ports of a lab's services on this machine.
type Ports interface {
	// Port returns the recorded port of a name, or a free one from prefer on, which it records.
	Port(name string, prefer int) (int, error)
	// SavePort records the port that a container has; 0 if it has gone.
	SavePort(name string, port int) error
}

// State is the observed state of a service. The zero value is an absent one.
type State struct {
	Exists    bool
	Volume    bool           // its volume exists, with or without a container
	Running   bool           // neither paused nor restarting
	Connected bool           // to all networks, under all names
	Answers   bool           // it runs and is healthy
	Fault     string         // why it is stopped or does not answer; may be empty
	Behind    string         // what its settings lack, though it answers
	Inputs    string         // digest of its inputs, see Inputs
	Ports     map[int]string // container port -> "127.0.0.1:5000", whether it runs or not
}

// Ready is the standing of a service that works.
const Ready = "ready"

// Phase describes the state: absent, stopped, not connected, unreachable or ready.
func (s State) Phase() string {
	switch {
	case !s.Exists:
		return "absent"
	case !s.Running:
		return "stopped"
	case !s.Connected:
		return "not connected"
	case !s.Answers:
		return "unreachable"
	}
	return Ready
}

// Service is a part of a lab in a container.
type Service struct {
	lab    string
	spec   Spec
	docker *docker.Docker
	ports  Ports
}

// New returns a service of a lab. It makes no requests.
func New(labName string, d *docker.Docker, ports Ports, spec Spec) *Service {
	return &Service{lab: labName, spec: spec, docker: d, ports: ports}
}

// Name returns the name of the part.
func (s *Service) Name() string { return s.spec.Name }

// Container returns the name of the container, and of its volume.
func (s *Service) Container() string { return lab.PartName(s.lab, s.spec.Name) }

// Inputs returns a digest of the images, the first of which is the container's, and the specification. Ports on this machine are excluded, as they may change freely.
func (s *Service) Inputs(images ...lab.Image) string {
	spec := s.spec
	spec.Ports = slices.Clone(spec.Ports)
	for i := range spec.Ports {
		spec.Ports[i].Prefer = 0
	}
	var of []string
	for _, image := range images {
		of = append(of, image.Ref, image.Digest)
	}
	text, err := json.Marshal(struct {
		Spec   Spec
		Images []string
	}{spec, of})
	if err != nil {
		panic(err) // strings, numbers and lists of them
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// answerLimit bounds one question about its health: on a busy machine, docker exec alone may take some seconds.
const answerLimit = 10 * time.Second

// Observe returns the state. An unresponsive service is not an error.
func (s *Service) Observe(ctx context.Context) (State, error) {
	st, _, err := s.inspect(ctx)
	if err != nil {
		return st, err
	}
	var foreign *lab.Error
	if st.Volume, err = s.volume(ctx); err != nil && !errors.As(err, &foreign) { // a foreign volume is not the lab's
		return st, err
	}
	if !st.Running {
		if st.Exists {
			st.Fault = s.panicked(ctx)
		}
		return st, nil
	}
	switch err := s.health(ctx, st); {
	case err == nil:
		st.Answers = true
	case ctx.Err() != nil:
		return st, ctx.Err()
	default:
		st.Fault = err.Error()
	}
	return st, nil
}

// panicked returns the last panic of the container's program, or "": what else a stopped one wrote need not be why.
func (s *Service) panicked(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	out, err := s.docker.Logs(ctx, s.Container(), 100)
	if err != nil {
		return ""
	}
	last := ""
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "panic: ") {
			last = strings.TrimSpace(line)
		}
	}
	return lab.Clip(last, 160)
}

func (s *Service) inspect(ctx context.Context) (State, docker.Container, error) {
	name := s.Container()
	c, exists, err := s.docker.Container(ctx, name)
	if err != nil || !exists {
		return State{}, docker.Container{}, err
	}
	if c.Labels[lab.LabelName] != s.lab {
		return State{}, c, &lab.Error{
			Exit: lab.ExitFailed, Code: "not_ours", Message: "a container called " + name + " exists and was not created by lab",
			Cure: "choose another --name, or remove it: docker rm -f " + lab.Quote(name),
		}
	}
	st := State{Exists: true, Running: c.Running && c.Status != "restarting" && !c.Paused(), Inputs: c.Labels[lab.LabelInputs], Ports: map[int]string{}}
	for port, at := range c.Published {
		if n, err := strconv.Atoi(strings.TrimSuffix(port, "/tcp")); err == nil {
			st.Ports[n] = at
		}
	}
	st.Connected = len(s.apart(c)) == 0
	return st, c, nil
}

// apart returns the networks that a container is not in, or not under all of its names.
func (s *Service) apart(c docker.Container) []string {
	return slices.DeleteFunc(s.networks(), func(network string) bool {
		_, connected := c.Addresses[network]
		return connected && !slices.ContainsFunc(s.aliases(), func(a string) bool { return !slices.Contains(c.Aliases[network], a) })
	})
}

func (s *Service) networks() []string {
	if s.spec.Alone {
		return slices.Clone(s.spec.Networks)
	}
	return append([]string{lab.NetworkName(s.lab)}, s.spec.Networks...)
}

// first returns the network that the container is created in.
func (s *Service) first() string {
	if list := s.networks(); len(list) > 0 {
		return list[0]
	}
	return "none"
}

func (s *Service) aliases() []string { return append([]string{s.spec.Name}, s.spec.Aliases...) }

// volume reports whether the lab's volume exists; a foreign one of its name is an error.
func (s *Service) volume(ctx context.Context) (bool, error) {
	if s.spec.Volume == "" {
		return false, nil
	}
	name := s.Container()
	out, err := s.docker.Output(ctx, nil, "volume", "inspect", "--format", `{{index .Labels "`+lab.LabelName+`"}}`, name)
	if docker.NotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", s.spec.Name, err)
	}
	if strings.TrimSpace(string(out)) != s.lab {
		return false, &lab.Error{
			Exit: lab.ExitFailed, Code: "not_ours", Message: "docker volume " + name + " exists and was not created by lab",
			Cure: "choose another --name, or remove it: docker volume rm " + lab.Quote(name),
		}
	}
	return true, nil
}

// health returns nil if the running service works and says so in time.
func (s *Service) health(ctx context.Context, st State) error {
	if s.spec.Health == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	return s.spec.Health(ctx, Running{Addresses: st.Ports, Exec: func(ctx context.Context, command ...string) ([]byte, error) {
		return s.docker.Exec(ctx, s.Container(), nil, command...)
	}})
}

// File reads a file of the container; a missing one is empty.
func (s *Service) File(ctx context.Context, path string) ([]byte, error) {
	text, err := s.docker.File(ctx, s.Container(), path)
	if errors.Is(err, docker.ErrNoFile) {
		return nil, nil
	}
	return text, err
}

// Remove deletes container and volume. Missing ones are ignored.
func (s *Service) Remove(ctx context.Context) error {
	st, _, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	if st.Exists {
		if err := s.removeContainer(ctx); err != nil {
			return err
		}
	}
	ours, err := s.volume(ctx)
	if err != nil {
		return err
	}
	if ours {
		if _, err := s.docker.Output(ctx, nil, "volume", "rm", s.Container()); err != nil && !docker.NotFound(err) {
			return fmt.Errorf("%s: %w", s.spec.Name, err)
		}
	}
	for _, p := range s.spec.Ports {
		if err := s.ports.SavePort(s.portName(p.Container), 0); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) removeContainer(ctx context.Context) error {
	if _, err := s.docker.Output(ctx, nil, "rm", "--force", "--volumes", s.Container()); err != nil && !docker.NotFound(err) {
		return fmt.Errorf("%s: %w", s.spec.Name, err)
	}
	return nil
}

// createArgs returns the arguments of docker create. host are the ports on this machine, in the order of the specification.
func (s *Service) createArgs(ref, inputs string, host []int) []string {
	name := s.Container()
	args := []string{"create", "--name", name, "--hostname", name, "--network", s.first()}
	if len(s.networks()) > 0 {
		for _, a := range s.aliases() {
			args = append(args, "--network-alias", a)
		}
	}
	if s.spec.Alone && len(s.networks()) > 0 { // the engine's resolver would ask this machine's servers for other names
		args = append(args, "--dns", "127.0.0.1")
	}
	args = append(args, docker.Labels(map[string]string{lab.LabelName: s.lab, lab.LabelPart: s.spec.Name, lab.LabelInputs: inputs})...)
	args = append(args, "--restart", "unless-stopped", "--security-opt", "no-new-privileges", "--cap-drop", "ALL") // survives reboots
	for _, c := range s.spec.Caps {
		args = append(args, "--cap-add", c)
	}
	for i, p := range s.spec.Ports {
		args = append(args, "--publish", net.JoinHostPort("127.0.0.1", strconv.Itoa(host[i]))+":"+strconv.Itoa(p.Container))
	}
	if s.spec.Volume != "" {
		args = append(args, "--volume", name+":"+s.spec.Volume)
	}
	for _, volume := range slices.Sorted(maps.Keys(s.spec.Mounts)) {
		args = append(args, "--volume", volume+":"+s.spec.Mounts[volume]+":ro")
	}
	for _, at := range slices.Sorted(maps.Keys(s.spec.Tmpfs)) {
		args = append(args, "--tmpfs", at+":"+s.spec.Tmpfs[at])
	}
	if s.spec.User != "" {
		args = append(args, "--user", s.spec.User)
	}
	for _, k := range slices.Sorted(maps.Keys(s.spec.Env)) {
		args = append(args, "--env", k+"="+s.spec.Env[k])
	}
	if s.spec.Memory > 0 {
		most := strconv.FormatInt(s.spec.Memory, 10)
		args = append(args, "--memory", most)
		if s.spec.Alone {
			args = append(args, "--memory-swap", most)
		}
	}
	if s.spec.Processes > 0 {
		args = append(args, "--pids-limit", strconv.Itoa(s.spec.Processes))
	}
	if s.spec.CPUs > 0 {
		args = append(args, "--cpus", strconv.FormatFloat(s.spec.CPUs, 'f', -1, 64))
	}
	if s.spec.ReadOnly {
		args = append(args, "--read-only")
	}
	if len(s.spec.Command) == 0 {
		return append(args, ref)
	}
	return append(append(args, "--entrypoint", s.spec.Command[0], ref), s.spec.Command[1:]...)
}
