package docker

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestMain also acts as the docker command, selected by $LAB_DOCKER.
func TestMain(m *testing.M) {
	if dir := os.Getenv("LAB_DOCKER"); dir != "" {
		os.Exit(engine(dir, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// engine answers from files in a folder and writes the received request there.
func engine(dir string, args []string) int {
	switch args[0] {
	case "version":
		if strings.Contains(args[2], "Arch") {
			fmt.Println("arm64")
		} else {
			fmt.Println("1.41")
		}
	case "image":
		if len(args) > 3 { // --format {{.Id}}
			text, _ := os.ReadFile(filepath.Join(dir, "id"))
			os.Stdout.Write(text)
		} else {
			text, _ := os.ReadFile(filepath.Join(dir, "image.json"))
			os.Stdout.Write(text)
		}
	case "load":
		_ = os.WriteFile(filepath.Join(dir, "loaded"), nil, 0o600)
	case "container":
		text, _ := os.ReadFile(filepath.Join(dir, "inspect.json"))
		os.Stdout.Write(text)
	case "volume":
		fmt.Println(`{"lab.homelab/part":"forge"}`)
	case "system":
		req, err := http.ReadRequest(bufio.NewReader(os.Stdin)) // stdin itself does not end
		if err != nil {
			return 1
		}
		body, _ := io.ReadAll(req.Body)
		_ = os.WriteFile(filepath.Join(dir, "request"), fmt.Appendf(nil, "%s %s\n%s", req.Method, req.URL, body), 0o600)
		answer, _ := os.ReadFile(filepath.Join(dir, "answer"))
		os.Stdout.Write(answer)
	}
	return 0
}

func fakeDocker(t *testing.T, files map[string]string) (*Docker, string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs sh")
	}
	dir := t.TempDir()
	t.Setenv("LAB_DOCKER", dir)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &Docker{program: os.Args[0]}, dir
}

const inspected = `[{
  "Name": "/demo-hub-control-plane", "Image": "sha256:1", "State": {"Running": true, "Paused": false},
  "Config": {"Hostname": "hub", "Image": "node:1", "Volumes": {"/var": {}}, "Labels": {"a": "b"}},
  "HostConfig": {"NetworkMode": "lab-demo", "Privileged": true, "Binds": ["/lib/modules:/lib/modules:ro", "lab-demo-forge:/data"],
    "PortBindings": {"6443/tcp": [{"HostIp": "127.0.0.1", "HostPort": "4711"}]}},
  "Mounts": [{"Type": "volume", "Name": "0123", "Source": "/volumes/0123/_data", "Destination": "/var"},
    {"Type": "volume", "Name": "lab-demo-forge", "Source": "/volumes/lab-demo-forge/_data", "Destination": "/data"},
    {"Type": "bind", "Source": "/lib/modules", "Destination": "/lib/modules"}],
  "NetworkSettings": {"Networks": {"lab-demo": {"IPAddress": "172.18.0.2"}}}
}]`

// The request contains the whole configuration, with new anonymous volumes.
func TestMake(t *testing.T) {
	d, dir := fakeDocker(t, map[string]string{"inspect.json": inspected, "answer": "HTTP/1.1 201 Created\r\nContent-Length: 11\r\n\r\n{\"Id\":\"42\"}"})
	list, err := d.Blueprints(t.Context(), "demo-hub-control-plane")
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	b := list[0]
	if b.Address != "172.18.0.2" || b.Publishes()["6443/tcp"] != "127.0.0.1:4711" || len(b.Volumes) != 2 || b.Volumes[0].Anonymous || !b.Volumes[1].Anonymous ||
		b.Volumes[0].Labels["lab.homelab/part"] != "forge" {
		t.Errorf("%+v", b)
	}
	for range 2 { // a blueprint can be reused
		id, err := d.Make(t.Context(), b.WithPort("6443/tcp", "127.0.0.1:4712"), "saved:1")
		if err != nil || id != "42" {
			t.Fatalf("%q, %v", id, err)
		}
		request, err := os.ReadFile(filepath.Join(dir, "request"))
		if err != nil {
			t.Fatal(err)
		}
		line, body, _ := strings.Cut(string(request), "\n")
		if line != "POST /v1.41/containers/create?name=demo-hub-control-plane" {
			t.Errorf("%s", line)
		}
		var sent map[string]any
		if err := json.Unmarshal([]byte(body), &sent); err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(sent)
		for _, want := range []string{
			"Hostname:hub", "Image:saved:1", "Volumes:map[]", "Privileged:true", "lab-demo-forge:/data", "HostPort:4712",
			"Mounts:[map[Target:/var Type:volume VolumeOptions:map[NoCopy:true]]]",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%s is not in %s", want, got)
			}
		}
	}
}

func TestMakeRefused(t *testing.T) {
	d, _ := fakeDocker(t, map[string]string{"answer": "HTTP/1.1 409 Conflict\r\nConnection: close\r\n\r\n{\"message\":\"the name is in use\"}"})
	_, err := d.Make(t.Context(), Blueprint{Name: "x", Config: map[string]any{}, Host: map[string]any{}}, "saved:1")
	var de *Error
	if !errors.As(err, &de) || !Prints(err, "the name is in use") {
		t.Errorf("%v", err)
	}
}
