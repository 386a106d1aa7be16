//go:build e2e

// Package e2e tests the whole program on real clusters, through its command line.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lab-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "lab")
	build := exec.Command("go", "build", "-o", binary, "homelab")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		return 1
	}
	if err := openPlan(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// estateRoot returns the repository, which is the default estate.
func estateRoot(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// testLab is a lab with its own name, state folder and estate.
type testLab struct {
	t      *testing.T
	name   string
	state  string // XDG_STATE_HOME
	estate string
	env    []string
	unused []string // volumes without a container before the test
}

// newLab copies the default estate with the named clusters (default all), and takes the lab down when the test ends.
func newLab(t *testing.T, name string, clusters ...string) *testLab {
	t.Helper()
	if name != "e2e" && !slices.Contains(others, name) {
		t.Fatalf("lab %s is not among others", name)
	}
	l := &testLab{t: t, name: name, state: t.TempDir(), estate: filepath.Join(t.TempDir(), "estate")}
	for _, dir := range []string{"clusters", "environments", "addons", "scenarios"} {
		copyTree(t, filepath.Join(estateRoot(t), dir), filepath.Join(l.estate, dir))
	}
	l.clutter()
	if len(clusters) > 0 {
		entries, err := os.ReadDir(filepath.Join(l.estate, "clusters"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !strings.Contains(" "+strings.Join(clusters, " ")+" ", " "+e.Name()+" ") {
				l.remove("clusters/" + e.Name())
			}
		}
	}
	l.unused = unusedVolumes()
	t.Cleanup(func() {
		if t.Failed() {
			l.diagnose()
		}
		if out := l.run("down", "--snapshots", "--lose-commits"); out.code != 0 {
			t.Errorf("lab down: exit %d\n%s", out.code, out.stderr)
		}
	})
	return l
}

// clutter adds files that repositories contain besides an estate: an empty file, a program, a link, binary data, a name with spaces and an umlaut.
func (l *testLab) clutter() {
	l.t.Helper()
	dir := filepath.Join(l.estate, "notes", "für später")
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, ".gitkeep"), nil, 0o644)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "check.sh"), []byte("#!/bin/sh\r\ntrue\r\n"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "logo.bin"), []byte{0, 0xff, 0xfe, '\n', 0}, 0o644)
	}
	if err == nil {
		err = os.Symlink("für später/check.sh", filepath.Join(l.estate, "notes", "check"))
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// diagnose writes an archive to CI's artifacts.
func (l *testLab) diagnose() {
	dir := os.Getenv("LAB_E2E_ARTIFACTS")
	if dir == "" {
		dir = os.TempDir()
	}
	file := filepath.Join(dir, "diagnose-"+l.name+".tar.gz")
	if out := l.run("diagnose", file); out.code == 0 {
		l.t.Logf("diagnose archive: %s", file)
	} else {
		l.t.Logf("no diagnose archive: %s", out.stderr)
	}
}

type output struct {
	code   int
	stdout string
	stderr string
	took   time.Duration
}

// command returns the program with the given arguments and the lab's name, state and estate.
func (l *testLab) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = l.state // outside any checkout, so that only flags and environment count
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+l.state, "LAB_NAME="+l.name, "LAB_ESTATE="+l.estate)
	cmd.Env = append(cmd.Env, l.env...)
	return cmd
}

// run runs the program.
func (l *testLab) run(args ...string) output {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Minute)
	defer cancel()
	cmd := l.command(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err := cmd.Run()
	out := output{stdout: stdout.String(), stderr: stderr.String(), took: time.Since(began)}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		out.code = exit.ExitCode()
	} else if err != nil {
		l.t.Fatalf("lab %s: %v", strings.Join(args, " "), err)
	}
	l.t.Logf("lab %s: exit %d in %.1fs", strings.Join(args, " "), out.code, out.took.Seconds())
	return out
}

// must runs a command that must succeed.
func (l *testLab) must(args ...string) output {
	l.t.Helper()
	out := l.run(args...)
	if out.code != 0 {
		l.t.Fatalf("lab %s: exit %d\n%s%s", strings.Join(args, " "), out.code, out.stdout, out.stderr)
	}
	return out
}

// decode runs a command that must succeed with -o json, and decodes its output.
func decode[T any](l *testLab, args ...string) T {
	l.t.Helper()
	var v T
	out := l.must(append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out.stdout), &v); err != nil {
		l.t.Fatalf("lab %s: %v in %s", strings.Join(args, " "), err, out.stdout)
	}
	return v
}

// rest returns the client configuration of a cluster.
func (l *testLab) rest(cluster string) *rest.Config {
	l.t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(l.state, "lab", l.name, "kubeconfigs", cluster+".yaml"))
	if err != nil {
		l.t.Fatal(err)
	}
	cfg.QPS = -1
	return cfg
}

func (l *testLab) kube(cluster string) *kubernetes.Clientset {
	l.t.Helper()
	c, err := kubernetes.NewForConfig(l.rest(cluster))
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

func (l *testLab) dynamic(cluster string) dynamic.Interface {
	l.t.Helper()
	c, err := dynamic.NewForConfig(l.rest(cluster))
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

// edit replaces old by new in a file of the estate, which must contain it.
func (l *testLab) edit(file, old, new string) {
	l.t.Helper()
	path := filepath.Join(l.estate, file)
	data, err := os.ReadFile(path)
	if err != nil {
		l.t.Fatal(err)
	}
	if !strings.Contains(string(data), old) {
		l.t.Fatalf("%s does not contain %q:\n%s", file, old, data)
	}
	l.write(file, strings.Replace(string(data), old, new, 1))
}

func (l *testLab) write(file, content string) {
	l.t.Helper()
	path := filepath.Join(l.estate, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

func (l *testLab) remove(path string) {
	l.t.Helper()
	if err := os.RemoveAll(filepath.Join(l.estate, path)); err != nil {
		l.t.Fatal(err)
	}
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// docker runs docker and returns its output.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// halt stops or kills nodes. With cgroup v1 a node may never exit while the engine reports it as running, which lab has to handle.
func halt(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "did not receive an exit event") {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// unusedVolumes returns the volumes without any container, except seeds. It returns none without an engine.
func unusedVolumes() []string {
	out, err := exec.Command("docker", "volume", "ls", "--filter", "dangling=true", "--format", `{{.Name}} {{.Label "lab.homelab/seed"}}`).Output()
	if err != nil {
		return nil
	}
	var list []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 1 {
			list = append(list, f[0])
		}
	}
	return list
}

// others are labs of these tests whose names start with that of another. Their leftovers after a manual abort do not count as the other's.
var others = []string{
	"e2e-bundle", "e2e-builtin", "e2e-catalogue", "e2e-edge", "e2e-examples", "e2e-faults", "e2e-figures", "e2e-foreign", "e2e-images", "e2e-kill", "e2e-names", "e2e-order", "e2e-parts", "e2e-registry", "e2e-runner", "e2e-service", "e2e-two", "e2e-versions",
}

// owns reports whether a name is one of the lab's.
func (l *testLab) owns(name string) bool {
	of := func(lab string) bool { return strings.HasPrefix(name, lab+"-") || strings.HasPrefix(name, "lab-"+lab) }
	return of(l.name) && !slices.ContainsFunc(others, func(other string) bool {
		return other != l.name && strings.HasPrefix(other, l.name) && of(other)
	})
}

// leftovers returns the containers, networks, volumes, images and files with the lab's name.
func (l *testLab) leftovers() []string {
	l.t.Helper()
	var left []string
	for what, args := range map[string][]string{
		"container": {"ps", "--all", "--format", "{{.Names}}"},
		"network":   {"network", "ls", "--format", "{{.Name}}"},
		"volume":    {"volume", "ls", "--format", "{{.Name}}"},
		"image":     {"image", "ls", "--format", "{{.Repository}}"},
	} {
		for _, name := range strings.Fields(docker(l.t, args...)) {
			if l.owns(name) {
				left = append(left, what+" "+name)
			}
		}
	}
	for _, volume := range unusedVolumes() { // nodes' volumes are anonymous
		if !slices.Contains(l.unused, volume) {
			left = append(left, "volume "+volume)
		}
	}
	if _, err := os.Stat(filepath.Join(l.state, "lab", l.name)); err == nil {
		left = append(left, "folder "+l.name)
	}
	return left
}

// dockerQuiet runs docker without output.
func dockerQuiet(args ...string) error { return exec.Command("docker", args...).Run() }
