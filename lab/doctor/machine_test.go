package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"homelab/lab/docker"
)

// machine is a fake host and engine. Its files are real ones in a temporary folder.
type machine struct {
	OS       string
	Endpoint string
	Info     docker.Info
	Error    string // error of docker info
	Refuses  string // error of docker run --privileged
	Nodes    string // output of docker ps for Kind's nodes
	Uses     string // runtimes and names of all containers, as docker inspect prints them
	Free     int64
	Programs []string
	Packages []string
	// SplitClient: since Debian 13 the docker command is a package of its own.
	SplitClient bool
	Go          string // go env GOVERSION

	Clusters        int
	Engines         int64
	BuildFromSource bool
	Needs           []Need

	dir      string
	ran      []string // docker commands and host programs with side effects
	onRun    func(program string, args []string) error
	onInfo   func(*docker.Info) error
	onReload func() // nil: the engine ignores it
	reloaded []int  // reloaded pids
	notRoot  bool
	dockerds []string
}

var errNotInstalled = errors.New("executable file not found in $PATH")

func newMachine(t *testing.T) *machine {
	return &machine{OS: "linux", Endpoint: "unix:///var/run/docker.sock", dir: t.TempDir()}
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, filepath.FromSlash(name)) }

func (m *machine) doctor() *Doctor {
	root := !m.notRoot
	h := Host{
		OS: m.OS, Root: &root,
		Proc: m.path("proc"), Sysctl: m.path("etc/sysctl.d"), AptLists: m.path("var/lib/apt/lists"),
		DaemonJSON: m.path("etc/docker/daemon.json"), PIDFile: m.path("run/docker.pid"),
		Log: m.path("var/log/lab-dockerd.log"), Runtime: m.path("usr/local/lib/lab/lab-runc"), Wrapper: m.path("usr/local/lib/lab/bin/docker"), Dockerd: m.dockerds,
		Record: m.path("var/lib/lab/doctor.json"), Sysctls: []string{m.path("etc/sysctl.conf"), m.path("usr/lib/sysctl.d")},
		LookPath: func(program string) (string, error) {
			if filepath.IsAbs(program) || slices.Contains(m.Programs, program) {
				return program, nil
			}
			return "", errNotInstalled
		},
		Run:  m.run,
		Free: func(string) (int64, error) { return m.Free, nil },
		Reload: func(pid int) error {
			m.reloaded = append(m.reloaded, pid)
			if m.onReload != nil {
				m.onReload()
			}
			return nil
		},
	}
	return New(Options{
		Docker: engineOf{m}, Host: h, Clusters: m.Clusters, Engines: m.Engines, BuildFromSource: m.BuildFromSource, Needs: m.Needs,
	})
}

// run fakes the host's programs.
func (m *machine) run(_ context.Context, env []string, program string, args ...string) ([]byte, error) {
	switch program {
	case "go":
		return []byte(m.Go + "\n"), nil
	case "dpkg-query":
		if slices.Contains(m.Packages, args[len(args)-1]) {
			return []byte("installed"), nil
		}
		return nil, errors.New("no packages found")
	case "apt-cache":
		// An older Debian's docker.io includes the client. Without lists, apt knows no package.
		if lists, _ := filepath.Glob(m.path("var/lib/apt/lists/*_Packages")); m.SplitClient && len(lists) > 0 {
			return []byte("docker-cli\n"), nil
		}
		return nil, nil
	}
	if program == "apt-get" {
		if !slices.Contains(env, "DEBIAN_FRONTEND=noninteractive") {
			return nil, errors.New("it would ask a user")
		}
		args = args[2:] // the lock timeout
		if args[0] == "update" {
			list := m.path("var/lib/apt/lists/debian_main_Packages")
			if err := errors.Join(os.MkdirAll(filepath.Dir(list), 0o755), os.WriteFile(list, nil, 0o644)); err != nil {
				return nil, err
			}
		}
	}
	m.ran = append(m.ran, strings.Join(append([]string{program}, args...), " "))
	if m.onRun != nil {
		return nil, m.onRun(program, args)
	}
	return nil, nil
}

// engineOf is the engine of a machine.
type engineOf struct{ *machine }

func (e engineOf) Endpoint(context.Context) (string, error) { return e.machine.Endpoint, nil }

func (e engineOf) Info(ctx context.Context) (docker.Info, error) {
	if e.onInfo != nil {
		if err := e.onInfo(&e.machine.Info); err != nil {
			return docker.Info{}, err
		}
	}
	if e.Error == "hangs" {
		<-ctx.Done()
		return docker.Info{}, ctx.Err()
	}
	if e.Error != "" {
		return docker.Info{}, errors.New(e.Error)
	}
	return e.machine.Info, nil
}

func (e engineOf) Output(_ context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	e.machine.ran = append(e.machine.ran, "docker "+args[0])
	if args[0] == "import" {
		if data, err := io.ReadAll(stdin); err != nil || len(data) == 0 {
			return nil, fmt.Errorf("an empty image: %w", err)
		}
		return []byte("sha256:probe\n"), nil
	}
	switch {
	case args[0] == "ps" && slices.Contains(args, "--all"):
		return []byte(strings.Repeat("id\n", strings.Count(e.Uses, "\n"))), nil
	case args[0] == "ps":
		return []byte(e.Nodes), nil
	case args[0] == "inspect":
		return []byte(e.Uses), nil
	}
	if args[0] == "run" && e.Refuses != "" {
		return nil, &docker.Error{Args: args, Stderr: e.Refuses, Err: errors.New("exit status 126")}
	}
	return nil, nil
}

const dockerdPID = 4242

// runs adds a dockerd process to the machine.
func (m *machine) runs(t *testing.T, args ...string) {
	t.Helper()
	pid := strconv.Itoa(dockerdPID)
	write(t, m.path("run/docker.pid"), pid)
	write(t, m.path("proc/"+pid+"/comm"), "dockerd\n")
	write(t, m.path("proc/"+pid+"/cmdline"), strings.Join(append([]string{"/usr/sbin/dockerd"}, args...), "\x00"))
	write(t, m.path("proc/"+pid+"/status"), "CapBnd:\t000001fffeffffff\n")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func decode(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}
