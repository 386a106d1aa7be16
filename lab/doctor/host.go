package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"homelab/lab/docker"
)

// Host configures paths and programs of the machine. Empty fields are the defaults; tests replace them.
type Host struct {
	OS         string   // runtime.GOOS
	Root       *bool    // whether lab runs as root
	Proc       string   // /proc
	Sysctl     string   // /etc/sysctl.d
	Sysctls    []string // other files and folders with kernel settings, see sysctl.d(5)
	AptLists   string   // /var/lib/apt/lists
	DaemonJSON string   // /etc/docker/daemon.json
	PIDFile    string   // /var/run/docker.pid
	Socket     string   // /var/run/docker.sock
	Log        string   // /var/log/lab-dockerd.log: output of a dockerd started by lab
	Runtime    string   // /usr/local/lib/lab/lab-runc
	Wrapper    string   // docker.Wrapper: the docker command that uses Runtime
	Record     string   // /var/lib/lab/doctor.json: what Fix changed
	Dockerd    []string // command of dockerd: "dockerd"

	LookPath func(program string) (string, error)
	// Run runs a host program and returns its stdout; the error contains stderr. env is added to lab's environment.
	Run func(ctx context.Context, env []string, program string, args ...string) ([]byte, error)
	// Free returns the bytes available to unprivileged users at path or its nearest existing parent.
	Free func(path string) (int64, error)
	// Reload makes a running dockerd reload its configuration.
	Reload func(pid int) error
}

func (h Host) withDefaults() Host {
	text := func(field *string, fallback string) {
		if *field == "" {
			*field = fallback
		}
	}
	text(&h.OS, runtime.GOOS)
	text(&h.Proc, "/proc")
	text(&h.Sysctl, "/etc/sysctl.d")
	text(&h.AptLists, "/var/lib/apt/lists")
	text(&h.DaemonJSON, "/etc/docker/daemon.json")
	text(&h.PIDFile, "/var/run/docker.pid")
	text(&h.Socket, "/var/run/docker.sock")
	text(&h.Log, "/var/log/lab-dockerd.log")
	text(&h.Runtime, "/usr/local/lib/lab/lab-runc")
	text(&h.Wrapper, docker.Wrapper)
	text(&h.Record, "/var/lib/lab/doctor.json")
	if h.Sysctls == nil {
		h.Sysctls = []string{"/etc/sysctl.conf", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"}
	}
	if h.Root == nil {
		root := os.Geteuid() == 0
		h.Root = &root
	}
	if h.Dockerd == nil {
		h.Dockerd = []string{"dockerd"}
	}
	if h.LookPath == nil {
		h.LookPath = lookPath
	}
	if h.Run == nil {
		h.Run = runProgram
	}
	if h.Free == nil {
		h.Free = freeAbove
	}
	if h.Reload == nil {
		h.Reload = reload
	}
	return h
}

// sbin has dockerd and debootstrap on Debian; after plain su, it is missing in PATH.
const sbin = "/usr/local/sbin:/usr/sbin:/sbin"

func lookPath(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err == nil {
		return path, nil
	}
	for _, dir := range filepath.SplitList(sbin) {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path, nil
		}
	}
	return "", err
}

// withSbin appends sbin to PATH.
func withSbin(env []string) []string {
	return append(append(os.Environ(), "PATH="+os.Getenv("PATH")+":"+sbin), env...)
}

func runProgram(ctx context.Context, env []string, program string, args ...string) ([]byte, error) {
	path, err := lookPath(program)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = withSbin(env)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return out, fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, lastLines(stderr.Bytes(), 5))
	}
	return out, nil
}

func freeAbove(path string) (int64, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return 0, err
	}
	for {
		n, err := free(path)
		if !errors.Is(err, os.ErrNotExist) || path == filepath.Dir(path) {
			return n, err
		}
		path = filepath.Dir(path)
	}
}

// memory in bytes; zero if unknown.
type memory struct{ total, available int64 }

func (h Host) memory() memory {
	var m memory
	data, _ := os.ReadFile(filepath.Join(h.Proc, "meminfo"))
	for line := range strings.Lines(string(data)) {
		name, rest, _ := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		kib, _ := strconv.ParseInt(fields[0], 10, 64)
		switch name {
		case "MemTotal":
			m.total = kib << 10
		case "MemAvailable":
			m.available = kib << 10
		}
	}
	return m
}

// capabilities available to processes of the host.
type capabilities struct{ known, sysResource bool }

// From linux/capability.h.
const capSysResource = 24

// capabilities reads the bounding set of the engine's process, which limits its containers, or of lab if that is
// unreadable.
func (h Host) capabilities() capabilities {
	status, err := os.ReadFile(filepath.Join(h.Proc, "self", "status"))
	if pid, ok := h.dockerd(); ok {
		if data, err2 := os.ReadFile(filepath.Join(h.Proc, strconv.Itoa(pid), "status")); err2 == nil {
			status, err = data, nil
		}
	}
	if err != nil {
		return capabilities{}
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "CapBnd:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(rest), 16, 64)
			return capabilities{known: err == nil, sysResource: set&(1<<capSysResource) != 0}
		}
	}
	return capabilities{}
}

// dockerd returns the pid in the engine's pid file if it is a live dockerd. The file survives a killed dockerd, and so
// does a zombie's entry in /proc.
func (h Host) dockerd() (pid int, ok bool) {
	data, err := os.ReadFile(h.PIDFile)
	if err != nil {
		return 0, false
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0, false
	}
	comm, err := os.ReadFile(filepath.Join(h.Proc, strconv.Itoa(pid), "comm"))
	if err != nil || strings.TrimSpace(string(comm)) != "dockerd" {
		return 0, false
	}
	status, err := os.ReadFile(filepath.Join(h.Proc, strconv.Itoa(pid), "status"))
	return pid, err != nil || !zombie.Match(status)
}

// zombie matches an exited process in proc_pid_status(5).
var zombie = regexp.MustCompile(`(?m)^State:\s+[ZX]`)

// systemd reports whether systemd is the init system.
func (h Host) systemd() bool {
	comm, _ := os.ReadFile(filepath.Join(h.Proc, "1", "comm"))
	return strings.TrimSpace(string(comm)) == "systemd"
}

// localEndpoint reports whether an engine's address may be this machine's.
func localEndpoint(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	switch u.Scheme {
	case "unix", "npipe":
		return true
	case "tcp":
		return u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
	}
	return false
}

// lastLines joins the last n lines of a program's output.
func lastLines(out []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, " | ")
}
