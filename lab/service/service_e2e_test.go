//go:build e2e

package service_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/service"
	"homelab/lab/service/servicetest"
	"homelab/lab/state"
)

// TestContract runs the contract on containers of a program that is compiled for it.
func TestContract(t *testing.T) {
	const name = "e2e-service"
	d := docker.New()
	run := func(stdin io.Reader, args ...string) string {
		t.Helper()
		out, err := d.Output(t.Context(), stdin, args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	image := imageOf(t, run)
	network := lab.NetworkName(name)
	run(nil, "network", "create", "--label", lab.LabelName+"="+name, network)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir, err := state.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	s := service.New(name, d, dir, service.Spec{
		Name: "part", Command: []string{"/server"}, User: "1000:1000", Volume: "/data", Ports: []service.Port{{Container: 8080, Prefer: 18080}}, Aliases: []string{"other"},
		Files:  []service.File{{Path: "/etc/part/password", Data: []byte("secret"), Owner: 1000}, {Path: "/data/own/file", Data: []byte("x"), Owner: 1000}},
		Memory: 64 << 20, Processes: 50, CPUs: 0.5, Health: service.Get(8080, "/", "lab", "secret"),
	})
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context()) // it ends before cleanup
		_ = s.Remove(ctx)
		_, _ = d.Output(ctx, nil, "network", "rm", network)
		_, _ = d.Output(ctx, nil, "image", "rm", "--force", image+":1", image+":2")
	})
	container := lab.PartName(name, "part")
	ask := func(method, text string) string {
		t.Helper()
		st, err := s.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+st.Ports[8080], strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("lab", "secret")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", resp.Status, got, err)
		}
		return string(got)
	}
	servicetest.Contract(t, servicetest.Subject{
		Service: s, Image: lab.Image{Ref: image + ":1"}, Newer: lab.Image{Ref: image + ":2"},
		Stop:       func() { run(nil, "stop", "--time", "1", container) },
		Disconnect: func() { reconnect(t, run, network, container) },
		Sicken: func() {
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			_ = w.WriteHeader(&tar.Header{Name: "password", Mode: 0o600, Uid: 1000, Gid: 1000})
			_ = w.Close()
			run(&b, "cp", "-", container+":/etc/part")
		},
		Lose: func() { run(nil, "rm", "--force", container) },
		Put:  func(text string) { ask(http.MethodPut, text) },
		Held: func() string { return ask(http.MethodGet, "") },
	})
	if left := run(nil, "volume", "ls", "--quiet", "--filter", "label="+lab.LabelName+"="+name); left != "" {
		t.Errorf("left: %s", left)
	}
	start := func() {
		t.Helper()
		if err := s.Start(t.Context(), func(string) {}, lab.Image{Ref: image + ":1"}); err != nil {
			t.Fatal(err)
		}
	}
	start()
	inspected := run(nil, "inspect", container)
	for _, want := range []string{`"Memory": 67108864`, `"PidsLimit": 50`, `"NanoCpus": 500000000`, `"part"`, `"other"`, `"HostIp": "127.0.0.1"`, `"no-new-privileges"`, lab.LabelName} {
		if !strings.Contains(inspected, want) {
			t.Errorf("docker inspect has no %s", want)
		}
	}
	if strings.Contains(inspected, "secret") {
		t.Error("docker inspect shows the password")
	}

	// a snapshot's container has the same names in the network
	made, err := d.Blueprints(t.Context(), container)
	if err != nil {
		t.Fatal(err)
	}
	run(nil, "rm", "--force", container)
	if _, err := d.Make(t.Context(), made[0], image+":1"); err != nil {
		t.Fatal(err)
	}
	start()
	c, exists, err := d.Container(t.Context(), container)
	if err != nil || !exists || !slices.Contains(c.Aliases[network], "part") || !slices.Contains(c.Aliases[network], "other") {
		t.Errorf("%+v, %v", c, err)
	}

	// a paused one goes on, and one whose network was made again joins that
	run(nil, "pause", container)
	start()
	run(nil, "network", "disconnect", "--force", network, container)
	run(nil, "network", "rm", network)
	run(nil, "network", "create", "--label", lab.LabelName+"="+name, network)
	start()
	if st, err := s.Observe(t.Context()); err != nil || st.Phase() != service.Ready {
		t.Errorf("%+v, %v", st, err)
	}

	// one whose program ends says why
	ending := service.New(name, d, dir, service.Spec{Name: "ending", Command: []string{"/server", "upstream"}, User: "1000:1000", Memory: 64 << 20, Processes: 50, CPUs: 0.5})
	if err := ending.Start(t.Context(), func(string) {}, lab.Image{Ref: image + ":1"}); err != nil {
		t.Error(err)
	}
	ticks, deadline := time.NewTicker(200*time.Millisecond), time.After(30*time.Second)
	defer ticks.Stop()
wait:
	for {
		st, err := ending.Observe(t.Context())
		if err == nil && st.Phase() == "stopped" && st.Fault == "panic: no upstream" {
			break
		}
		select {
		case <-ticks.C:
		case <-deadline:
			t.Errorf("%+v, %v", st, err)
			break wait
		}
	}
	if err := ending.Remove(t.Context()); err != nil {
		t.Error(err)
	}

	// others' objects of its name are left alone
	if err := s.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(nil, "create", "--name", container, "--entrypoint", "/server", image+":1")
	for what, err := range map[string]error{"start": s.Start(t.Context(), func(string) {}, lab.Image{Ref: image + ":1"}), "remove": s.Remove(t.Context())} {
		if err == nil || !strings.Contains(err.Error(), "was not created by lab") {
			t.Errorf("%s: %v", what, err)
		}
	}
	run(nil, "rm", container)
}

// reconnect connects a container without the names that it needs, so that its published port still works.
func reconnect(t *testing.T, run func(io.Reader, ...string) string, network, container string) {
	t.Helper()
	run(nil, "network", "disconnect", network, container)
	run(nil, "network", "connect", network, container)
}

// imageOf compiles the server into two images, NAME:1 and NAME:2, and returns the name.
func imageOf(t *testing.T, run func(io.Reader, ...string) string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "server")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/server")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+run(nil, "version", "--format", "{{.Server.Arch}}"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{{Name: "data/", Typeflag: tar.TypeDir, Mode: 0o777, Uid: 1000}, {Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: "server", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(text))}} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	const image = "lab-e2e-service"
	run(bytes.NewReader(b.Bytes()), "import", "-", image+":1")
	run(bytes.NewReader(b.Bytes()), "import", "--change", "LABEL newer=yes", "-", image+":2")
	return image
}
