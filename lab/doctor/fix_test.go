package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"homelab/lab"
	"homelab/lab/docker"
)

func fix(t *testing.T, m *machine) ([]string, error) {
	t.Helper()
	t.Setenv("DOCKER_HOST", "")
	var lines []string
	d := m.doctor()
	err := d.Fix(t.Context(), d.Run(t.Context()), func(line string) { lines = append(lines, strings.ReplaceAll(line, m.dir, "")) })
	return lines, err
}

const engineInfo = `{"ServerVersion": "20.10.24", "DefaultRuntime": "runc", "CgroupVersion": "2", "Architecture": "x86_64"}`

// serve is the end of a fake dockerd: the engine answers until the test's folder is removed.
const serve = `touch "$1"; while [ -e "$1" ]; do sleep 0.05; done`

// bare returns a machine without an engine. Its fake dockerd creates a file, after which the engine answers.
func bare(t *testing.T, dockerd string) *machine {
	if runtime.GOOS == "windows" {
		t.Skip("needs sh")
	}
	m := newMachine(t)
	m.Endpoint, m.Error, m.Free = "", "not installed", 1<<40
	m.Programs = []string{"apt-get"}
	m.dockerds = []string{m.path("dockerd"), m.path("up")}
	write(t, m.path("dockerd"), "#!/bin/sh\n"+dockerd)
	if err := os.Chmod(m.path("dockerd"), 0o755); err != nil {
		t.Fatal(err)
	}
	m.onRun = func(program string, args []string) error {
		if program == "apt-get" && args[0] == "install" {
			m.Programs = append(m.Programs, "dockerd", "docker")
		}
		return nil
	}
	m.onInfo = func(info *docker.Info) error {
		if _, err := os.Stat(m.path("up")); err == nil && m.Error != "" {
			m.Error, m.Endpoint = "", "unix:///var/run/docker.sock"
			decode(t, engineInfo, info)
		}
		return nil
	}
	return m
}

func TestFixInstallsAndStartsAnEngine(t *testing.T) {
	m := bare(t, "echo hello from dockerd; "+serve)
	m.BuildFromSource = true
	m.Needs = []Need{{Program: "gcc", Package: "gcc"}, {Package: "libseccomp-dev"}, {Package: "libseccomp-dev"}}
	lines, err := fix(t, m)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"fetching Debian's package lists: apt-get update",
		"installing docker.io with apt-get",
		"starting dockerd, which logs to /var/log/lab-dockerd.log",
		"installing gcc, libseccomp-dev with apt-get",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	ran := []string{
		"apt-get update", "apt-get install --yes --no-install-recommends docker.io",
		"apt-get install --yes --no-install-recommends gcc libseccomp-dev",
	}
	if diff := cmp.Diff(ran, m.ran); diff != "" {
		t.Error(diff)
	}
}

// A fresh Debian 13: without lists, apt knows no docker-cli, and docker.io alone has no docker command.
func TestFixAsksAptAfterItsListsAreThere(t *testing.T) {
	m := bare(t, serve)
	m.SplitClient = true
	if _, err := fix(t, m); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"apt-get update", "apt-get install --yes --no-install-recommends docker-cli docker.io"}, m.ran); diff != "" {
		t.Error(diff)
	}
}

func TestFixDockerdFails(t *testing.T) {
	m := bare(t, "echo one; echo devices cgroup is not mounted; exit 3")
	_, err := fix(t, m)
	var e *lab.Error
	if !errors.As(err, &e) || e.Code != "not_cured" {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"exit status 3", "devices cgroup is not mounted", m.path("var/log/lab-dockerd.log")} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

func TestFixRetriesDockerd(t *testing.T) {
	m := bare(t, `[ -e "$1.first" ] || { touch "$1.first"; echo timeout waiting for containerd; exit 1; }; `+serve)
	lines, err := fix(t, m)
	if err != nil || lines[len(lines)-1] != "dockerd exited: retrying" {
		t.Fatalf("%v, progress %q", err, lines)
	}
}

// Debian's init script may have started a dockerd. Then ours exits because of the pid file.
func TestFixConcurrentStart(t *testing.T) {
	m := bare(t, "echo pid file found; exit 1")
	m.runs(t)
	asked := 0
	up := m.onInfo
	m.onInfo = func(info *docker.Info) error {
		if asked++; asked == 8 {
			write(t, m.path("up"), "")
		}
		return up(info)
	}
	if _, err := fix(t, m); err != nil {
		t.Fatal(err)
	}
}

func TestFixStartsWithSystemd(t *testing.T) {
	m := bare(t, "exit 1")
	m.Programs = append(m.Programs, "docker", "dockerd")
	write(t, m.path("proc/1/comm"), "systemd\n")
	m.onRun = func(program string, _ []string) error {
		if program == "systemctl" {
			write(t, m.path("up"), "")
		}
		return nil
	}
	if _, err := fix(t, m); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"systemctl start docker"}, m.ran); diff != "" {
		t.Error(diff)
	}
}

func TestFixFetchesStaleLists(t *testing.T) {
	m := bare(t, serve)
	write(t, m.path("var/lib/apt/lists/debian_Packages.lz4"), "old")
	failed := false
	m.onRun = func(program string, args []string) error {
		if args[0] == "install" && !failed {
			failed = true
			return errors.New("404 not found")
		}
		m.Programs = append(m.Programs, "dockerd", "docker")
		return nil
	}
	if _, err := fix(t, m); err != nil {
		t.Fatal(err)
	}
	install := "apt-get install --yes --no-install-recommends docker.io"
	if diff := cmp.Diff([]string{install, "apt-get update", install}, m.ran); diff != "" {
		t.Error(diff)
	}
}

func TestFixNeedsRoot(t *testing.T) {
	m := bare(t, "exit 1")
	m.notRoot = true
	lines, err := fix(t, m)
	var e *lab.Error
	if !errors.As(err, &e) || e.Code != "needs_root" || len(lines) > 0 || len(m.ran) > 0 {
		t.Errorf("%v, progress %q, ran %q", err, lines, m.ran)
	}
}

func TestFixSetsInotifyLimits(t *testing.T) {
	for _, boots := range []bool{true, false} {
		m := newMachine(t)
		decode(t, engineInfo, &m.Info)
		m.Free = 1 << 40
		write(t, m.path("proc/sys/fs/inotify/max_user_watches"), "8192\n")
		write(t, m.path("proc/sys/fs/inotify/max_user_instances"), "4096\n")
		if boots {
			write(t, m.path("etc/sysctl.d/README"), "")
		}
		if _, err := fix(t, m); err != nil {
			t.Fatal(err)
		}
		if got := read(t, m.path("proc/sys/fs/inotify/max_user_watches")); got != "524288\n" {
			t.Errorf("watches: %s", got)
		}
		if got := read(t, m.path("proc/sys/fs/inotify/max_user_instances")); got != "4096\n" {
			t.Errorf("a sufficient limit was lowered to %s", got)
		}
		conf, err := os.ReadFile(m.path("etc/sysctl.d/60-lab.conf"))
		if boots != (err == nil) || boots && !strings.Contains(string(conf), "fs.inotify.max_user_watches = 524288\n") {
			t.Errorf("sysctl.d exists: %t, content %q, %v", boots, conf, err)
		}
		if lines, err := fix(t, m); err != nil || len(lines) > 0 {
			t.Errorf("second Fix: %q, %v", lines, err)
		}
	}
}

// A limit that is high enough now, or by another file at boot, is never lowered, also not by an older lab's file.
func TestFixNeverLowersALimit(t *testing.T) {
	for name, c := range map[string]struct {
		watches, instances string            // live
		files              map[string]string // at boot
		want               string            // lines of lab's file
		live               string            // watches afterwards
	}{
		"high watches":      {"1048576", "128", nil, "fs.inotify.max_user_instances = 512\n", "1048576"},
		"configured higher": {"8192", "8192", map[string]string{"usr/lib/sysctl.d/10-x.conf": "# a\nfs/inotify/max_user_watches=2097152\n"}, "fs.inotify.max_user_watches = 2097152\n", "2097152"},
		"an older file": {
			"1048576", "128",
			map[string]string{"etc/sysctl.d/60-lab.conf": "fs.inotify.max_user_watches = 524288\nfs.inotify.max_user_instances = 512\n"},
			"fs.inotify.max_user_watches = 1048576\nfs.inotify.max_user_instances = 512\n", "1048576",
		},
		"an older file alone": {
			"1048576", "8192",
			map[string]string{"etc/sysctl.d/60-lab.conf": "fs.inotify.max_user_watches = 524288\nfs.inotify.max_user_instances = 512\n"},
			"fs.inotify.max_user_watches = 1048576\nfs.inotify.max_user_instances = 8192\n", "1048576",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			decode(t, engineInfo, &m.Info)
			m.Free = 1 << 40
			write(t, m.path("proc/sys/fs/inotify/max_user_watches"), c.watches+"\n")
			write(t, m.path("proc/sys/fs/inotify/max_user_instances"), c.instances+"\n")
			write(t, m.path("etc/sysctl.d/README"), "")
			for file, text := range c.files {
				write(t, m.path(file), text)
			}
			if _, err := fix(t, m); err != nil {
				t.Fatal(err)
			}
			_, lines, _ := strings.Cut(read(t, m.path("etc/sysctl.d/60-lab.conf")), "\n")
			if diff := cmp.Diff(c.want, lines); diff != "" {
				t.Error(diff)
			}
			if got := strings.TrimSpace(read(t, m.path("proc/sys/fs/inotify/max_user_watches"))); got != c.live {
				t.Errorf("watches: %s, want %s", got, c.live)
			}
			if lines, err := fix(t, m); err != nil || len(lines) > 0 {
				t.Errorf("second Fix: %q, %v", lines, err)
			}
		})
	}
}

// engineThatReloads returns a machine whose engine refuses privileged containers and reloads the runtimes of daemon.json, if it has any.
func engineThatReloads(t *testing.T, daemonJSON string) *machine {
	m := newMachine(t)
	decode(t, engineInfo, &m.Info)
	m.Free, m.Programs = 1<<40, []string{"docker"}
	m.Refuses = "unable to apply caps: operation not permitted"
	m.runs(t)
	if daemonJSON != "" {
		write(t, m.path("etc/docker/daemon.json"), daemonJSON)
	}
	m.onReload = func() {
		var config struct{ Runtimes map[string]any }
		if text, err := os.ReadFile(m.path("etc/docker/daemon.json")); err == nil {
			decode(t, string(text), &config)
		}
		if config.Runtimes != nil {
			m.Info.Runtimes = config.Runtimes
		}
	}
	return m
}

func TestFixRegistersTheRuntime(t *testing.T) {
	m := engineThatReloads(t, `{"data-root": "/data", "mtu": 1400, "log-opts": {"max-size": "<10m>"}, "n": 9007199254740993,
		"runtimes": {"nvidia": {"path": "/usr/bin/nvidia", "runtimeArgs": ["--x"]}}}`)
	if err := os.Chmod(m.path("etc/docker/daemon.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := fix(t, m)
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 3 || !strings.Contains(lines[0], "lab-runc") || !strings.HasSuffix(lines[1], "not as the default; backup: /etc/docker/daemon.json.before-lab-1") || !strings.Contains(lines[2], "SIGHUP") {
		t.Errorf("progress %q", lines)
	}
	want := `{
	"data-root": "/data",
	"log-opts": {
		"max-size": "<10m>"
	},
	"mtu": 1400,
	"n": 9007199254740993,
	"runtimes": {
		"lab-runc": {
			"path": "` + m.path("usr/local/lib/lab/lab-runc") + `"
		},
		"nvidia": {
			"path": "/usr/bin/nvidia",
			"runtimeArgs": [
				"--x"
			]
		}
	}
}
`
	if diff := cmp.Diff(want, read(t, m.path("etc/docker/daemon.json"))); diff != "" {
		t.Error(diff)
	}
	if info, _ := os.Stat(m.path("etc/docker/daemon.json")); info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is now %v", info.Mode())
	}
	if backup := read(t, m.path("etc/docker/daemon.json.before-lab-1")); !strings.Contains(backup, `"mtu": 1400`) {
		t.Errorf("backup: %s", backup)
	}
	for _, file := range []string{"etc/docker/daemon.json.before-lab-1", "var/lib/lab/doctor.json"} {
		if info, err := os.Stat(m.path(file)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v: others may read what only root could", file, info.Mode(), err)
		}
	}
	if script := read(t, m.path("usr/local/lib/lab/lab-runc")); !strings.Contains(script, "exec 'runc' \"$@\"") {
		t.Errorf("script: %s", script)
	}

	if lines, err := fix(t, m); err != nil || len(lines) > 0 {
		t.Errorf("second call: %q, %v", lines, err)
	}
	if err := os.Remove(m.path("usr/local/lib/lab/lab-runc")); err != nil {
		t.Fatal(err)
	}
	if _, err := fix(t, m); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read(t, m.path("etc/docker/daemon.json"))); diff != "" {
		t.Error(diff)
	}
	if !executable(m.path("usr/local/lib/lab/lab-runc")) {
		t.Error("deleted runtime was not recreated")
	}

	// Another change gets a backup of its own.
	write(t, m.path("etc/docker/daemon.json"), `{"mtu": 9000}`)
	m.Info.Runtimes = nil
	if _, err := fix(t, m); err != nil {
		t.Fatal(err)
	}
	if first, second := read(t, m.path("etc/docker/daemon.json.before-lab-1")), read(t, m.path("etc/docker/daemon.json.before-lab-2")); !strings.Contains(first, "1400") || second != `{"mtu": 9000}` {
		t.Errorf("backups: %s, %s", first, second)
	}
}

// An existing default runtime must still be run, even if the trimmed one is rewritten.
func TestFixWrapsTheDefaultRuntime(t *testing.T) {
	m := engineThatReloads(t, `{"default-runtime": "own", "runtimes": {"own": {"path": "/opt/o'wn", "runtimeArgs": ["--debug"]}}}`)
	m.Info.DefaultRuntime = "own"
	if _, err := fix(t, m); err != nil {
		t.Fatal(err)
	}
	script := read(t, m.path("usr/local/lib/lab/lab-runc"))
	if !strings.Contains(script, `exec '/opt/o'\''wn' "$@"`) {
		t.Errorf("script: %s", script)
	}
	if got := read(t, m.path("etc/docker/daemon.json")); strings.Count(got, "--debug") != 2 {
		t.Errorf("arguments missing: %s", got)
	} else if !strings.Contains(got, `"default-runtime": "own"`) {
		t.Errorf("another default: %s", got)
	}
	if err := os.Remove(m.path("usr/local/lib/lab/lab-runc")); err != nil {
		t.Fatal(err)
	}
	if _, err := fix(t, m); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(script, read(t, m.path("usr/local/lib/lab/lab-runc"))); diff != "" {
		t.Error(diff)
	}
}

func TestFixInvalidDaemonJSON(t *testing.T) {
	for _, text := range []string{
		`{"mtu": 1400,}`, `[]`, `null`, `{"runtimes": []}`, `{"default-runtime": 1}`, `{"default-runtime": "gone"}`,
		`{"default-runtime": "runsc", "runtimes": {"runsc": {"runtimeType": "io.containerd.runsc.v1"}}}`,
	} {
		m := engineThatReloads(t, text)
		_, err := fix(t, m)
		var e *lab.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), "daemon.json was not changed") {
			t.Errorf("%s: %v", text, err)
		}
		if got := read(t, m.path("etc/docker/daemon.json")); got != text {
			t.Errorf("%s became %s", text, got)
		}
		if left, _ := filepath.Glob(m.path("etc/docker/*")); len(left) != 1 {
			t.Errorf("%s: left behind %q", text, left)
		}
	}
}

// An engine that rejects its configuration would not start again.
func TestFixRestoresDaemonJSON(t *testing.T) {
	for _, text := range []string{"", `{"mtu": 1400}`} {
		m := engineThatReloads(t, text)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		asked := 0
		m.onReload = nil
		m.onInfo = func(*docker.Info) error {
			if asked++; asked == 3 {
				cancel() // instead of waiting for the timeout
			}
			return nil
		}
		d := m.doctor()
		r := d.Run(t.Context())
		if err := d.Fix(ctx, r, func(string) {}); err == nil {
			t.Fatal("no error from a refusing engine")
		}
		got, err := os.ReadFile(m.path("etc/docker/daemon.json"))
		if text == "" != errors.Is(err, os.ErrNotExist) || string(got) != text {
			t.Errorf("%q became %q, %v", text, got, err)
		}
		if !slices.Equal(m.reloaded, []int{dockerdPID}) {
			t.Errorf("%v were reloaded", m.reloaded)
		}
	}
}

func TestConfigFile(t *testing.T) {
	for _, args := range [][]string{{"--config-file", "/else/daemon.json"}, {"-D", "--config-file=/else/daemon.json"}} {
		m := newMachine(t)
		m.runs(t, args...)
		if got := m.doctor().o.Host.configFile(dockerdPID); got != "/else/daemon.json" {
			t.Errorf("%q: %s", args, got)
		}
	}
}

// The pid of a killed dockerd was reused, or is a zombie.
func TestStalePIDFile(t *testing.T) {
	for file, content := range map[string]string{"comm": "bash\n", "status": "Name:\tdockerd\nState:\tZ (zombie)\n"} {
		m := newMachine(t)
		m.runs(t)
		files, _ := filepath.Glob(m.path("proc/*/" + file))
		write(t, files[0], content)
		if pid, ok := m.doctor().o.Host.dockerd(); ok {
			t.Errorf("%s: %d would get the engine's signals", file, pid)
		}
	}
}

func TestFixRemovesStalePIDFile(t *testing.T) {
	m := bare(t, serve)
	write(t, m.path("run/docker.pid"), "4194304")
	lines, err := fix(t, m)
	if err != nil || !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "removing ") }) {
		t.Errorf("%v, progress %q", err, lines)
	}
	if _, err := os.Stat(m.path("run/docker.pid")); err == nil {
		t.Error("it still exists")
	}
}
