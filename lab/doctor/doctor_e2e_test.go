//go:build e2e && linux

package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"homelab/lab/docker"
)

// TestFixRealEngine starts a second dockerd like Fix, on a host without CAP_SYS_RESOURCE. It needs root and
// dockerd.
func TestFixRealEngine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := lookPath("dockerd"); err != nil {
		t.Skip(err)
	}
	ctx := t.Context()
	dir := t.TempDir()
	config := filepath.Join(dir, "daemon.json")
	socket := filepath.Join(dir, "docker.sock")
	write(t, config, `{"labels":["kept=yes"],"log-opts":{"max-size":"10m"},"max-concurrent-downloads":9007199254740993}`)
	t.Setenv("DOCKER_HOST", "unix://"+socket)
	wrapper := filepath.Join(dir, "own", "docker")
	engine := docker.WithWrapper(wrapper)
	d := New(Options{Docker: engine, Clusters: 1, Host: Host{
		DaemonJSON: "/nonexistent: the path is on dockerd's command line",
		PIDFile:    filepath.Join(dir, "docker.pid"),
		Socket:     socket,
		Log:        filepath.Join(dir, "dockerd.log"),
		Runtime:    filepath.Join(dir, "lib", "lab-runc"),
		Sysctl:     filepath.Join(dir, "no-sysctl.d"),
		Wrapper:    wrapper,
		Record:     filepath.Join(dir, "record.json"),
		Dockerd: []string{
			// In a network of its own: with --bridge=none, dockerd removes the bridge docker0, which is that of the host's engine.
			"unshare", "--net", "dockerd", "--host", "unix://" + socket, "--config-file", config, "--pidfile", filepath.Join(dir, "docker.pid"),
			"--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"), "--bridge=none", "--iptables=false",
		},
	}})
	t.Cleanup(func() { endDockerd(t, d.o.Host) })

	before := d.Run(ctx)
	if got := before.Check(CheckDocker); got.Status != StatusFail || !got.Fixable {
		t.Fatalf("before the start: %+v", got)
	}
	var lines []string
	progress := func(line string) { lines = append(lines, line); t.Log("fix: " + line) }
	if d.o.Host.systemd() {
		if err := d.startDockerd(ctx); err != nil { // Fix would start the system's engine
			t.Fatal(err)
		}
	} else if err := d.fixEngine(ctx, progress); err != nil {
		t.Fatal(err)
	}
	pid, ok := d.o.Host.dockerd()
	if !ok {
		t.Fatal("dockerd answers, but its pid file is wrong")
	}
	if sid, err := session(pid); err != nil || sid == syscall.Getpgrp() {
		t.Fatalf("dockerd is in the test's session %d (%v): an interrupt would end it", sid, err)
	}
	importBox(t, engine)

	lacks := !d.o.Host.capabilities().sysResource
	err := privilegedRun(ctx, engine)
	err0 := err
	r := d.Run(ctx)
	t.Logf("privileged, before: %v; the check: %+v", err, r.Check(CheckPrivileged))
	if (err != nil) != (r.Check(CheckPrivileged).Status == StatusFail) {
		t.Fatalf("check: %+v, engine: %v", r.Check(CheckPrivileged), err)
	}
	if lacks && strings.HasPrefix(r.Summary(), "docker 20.") && err == nil {
		t.Fatal("this old engine should have refused a privileged container")
	}
	// Register the runtime even on a healthy host, to check that it does no harm.
	original := read(t, config)
	if err := d.fixRuntime(ctx, progress); err != nil {
		t.Fatal(err)
	}
	if err := privilegedRun(ctx, engine); err != nil {
		t.Fatalf("privileged, after: %v", err)
	}
	if bare := privilegedRun(ctx, docker.WithWrapper("")); (bare != nil) != (err0 != nil) {
		t.Errorf("containers of others: before the fix %v, after %v", err0, bare)
	}
	out, err := engine.Output(ctx, nil, "run", "--detach", "--interactive", "--privileged", "--network", "none", "box", "/box", "wait")
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(string(out))
	out, err = engine.Output(ctx, nil, "exec", "--privileged", id, "/box", "caps")
	if err != nil {
		t.Fatalf("docker exec --privileged: %v", err)
	}
	set, err := strconv.ParseUint(strings.TrimSpace(string(out)), 16, 64)
	if err != nil || set&(1<<capSysResource) != 0 || set&(1<<21) == 0 {
		t.Fatalf("exec --privileged has %s, want CAP_SYS_ADMIN without CAP_SYS_RESOURCE", out)
	}
	if _, err := engine.Output(ctx, nil, "rm", "--force", id); err != nil {
		t.Fatal(err)
	}

	var got struct {
		Labels    []string          `json:"labels"`
		LogOpts   map[string]string `json:"log-opts"`
		Downloads json.Number       `json:"max-concurrent-downloads"`
		Default   string            `json:"default-runtime"`
	}
	text, _ := os.ReadFile(config)
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Labels) != 1 || got.LogOpts["max-size"] != "10m" || got.Downloads != "9007199254740993" || got.Default != "" {
		t.Errorf("daemon.json lost settings:\n%s", text)
	}

	var after Report
	took := time.Hour
	for range 3 { // best of three, on a busy machine
		start := time.Now()
		after = d.Run(ctx)
		took = min(took, time.Since(start))
	}
	t.Logf("a cured host is checked in %s: %+v", took, after.Checks)
	if c := after.Check(CheckPrivileged); c.Status != StatusOK || !strings.Contains(c.Found, runtimeName) {
		t.Errorf("after: %+v", c)
	}
	if took > time.Second {
		t.Errorf("the checks took %s; lab up runs them each time", took)
	}
	lines = nil
	if err := d.Fix(ctx, only(after, CheckDocker, CheckPrivileged), progress); err != nil || len(lines) > 0 {
		t.Errorf("second Fix: %q, %v", lines, err)
	}
	undone, err := d.Undo(ctx, progress)
	if err != nil || read(t, config) != original || executable(wrapper) || executable(d.o.Host.Runtime) {
		t.Errorf("Undo: %+v, %v\n%s", undone, err, read(t, config))
	}
	if out, err := engine.Output(ctx, nil, "images", "--quiet", "--filter", "label=lab.homelab/part=doctor"); err != nil || len(out) > 0 {
		t.Errorf("the probe left images: %s %v", out, err)
	}
}

func privilegedRun(ctx context.Context, engine *docker.Docker) error {
	_, err := engine.Output(ctx, nil, "run", "--rm", "--privileged", "--network", "none", "box", "/box", "true")
	return err
}

// importBox creates the image "box" with one static program.
func importBox(t *testing.T, engine *docker.Docker) {
	t.Helper()
	root := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(root, "box"), "./testdata/box")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tarball, err := exec.Command("tar", "-c", "-C", root, "box").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Run(t.Context(), bytes.NewReader(tarball), io.Discard, "import", "-", "box"); err != nil {
		t.Fatal(err)
	}
}

func session(pid int) (int, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return strconv.Atoi(strings.Fields(rest)[3])
}

// endDockerd stops the test's engine and waits until it has released its folders.
func endDockerd(t *testing.T, h Host) {
	pid, ok := h.dockerd()
	if !ok {
		return
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := await(ctx, 30*time.Second, func(context.Context) error {
		if _, ok := h.dockerd(); ok {
			return io.ErrNoProgress
		}
		return nil
	})
	if err != nil {
		t.Errorf("dockerd %d did not end: %v", pid, err)
	}
}

// only returns a report with some of the checks.
func only(r Report, ids ...string) Report {
	var out Report
	for _, id := range ids {
		out.Checks = append(out.Checks, r.Check(id))
	}
	return out
}
