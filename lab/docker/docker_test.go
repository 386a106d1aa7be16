package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"homelab/lab"
)

func TestPortTaken(t *testing.T) {
	const endpoint = "driver failed programming external connectivity on endpoint demo-forge (87e7dcd67991): "
	for text, address := range map[string]string{
		endpoint + "Error starting userland proxy: listen tcp4 127.0.0.1:9998: bind: address already in use":                         "127.0.0.1:9998",
		endpoint + "Bind for 127.0.0.1:9997 failed: port is already allocated":                                                       "127.0.0.1:9997",
		"failed to set up container networking: " + endpoint + "Bind for 0.0.0.0:80 failed: port is already allocated":               "0.0.0.0:80",
		endpoint + "failed to bind host port for 127.0.0.1:9998:172.17.0.2:80/tcp: address already in use":                           "127.0.0.1:9998",
		endpoint + "failed to bind host port 127.0.0.1:9998/tcp: address already in use":                                             "127.0.0.1:9998",
		endpoint + "Error starting userland proxy: listen tcp4 127.0.0.1:80: bind: permission denied":                                "",
		`Conflict. The container name "/demo-forge" is already in use by container "3a0af518". You have to remove (or rename) that.`: "",
	} {
		err := PortTaken(text)
		var e *lab.Error
		switch {
		case address == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case address != "" && (!errors.As(err, &e) || e.Code != "port_taken" || !strings.HasSuffix(e.Message, " "+address) || e.Cure == ""):
			t.Errorf("%s: %v, want %s in it", text, err, address)
		}
	}
}

func TestStart(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs sh")
	}
	script := filepath.Join(t.TempDir(), "docker")
	start := func(body string) error {
		if err := os.WriteFile(script, []byte("#!/bin/sh\n[ \"$*\" = 'start demo' ] || exit 7\n"+body), 0o755); err != nil {
			t.Fatal(err)
		}
		return (&Docker{program: script}).Start(t.Context(), "demo", "lab-demo")
	}
	if err := start(""); err != nil {
		t.Error(err)
	}
	var e *lab.Error
	if err := start("echo Bind for 127.0.0.1:9997 failed: port is already allocated >&2; exit 1"); !errors.As(err, &e) || e.Code != "port_taken" {
		t.Errorf("%v", err)
	}
	var d *Error
	if err := start("echo out of memory >&2; exit 1"); !errors.As(err, &d) || d.Stderr != "out of memory" {
		t.Errorf("%v", err)
	}
}

// An error of a client that reached no engine does not mean that an object is missing.
func TestErrorsWithoutEngine(t *testing.T) {
	for text, want := range map[string]struct{ absent, noFile bool }{
		"Error response from daemon: network lab-demo not found":                                                                                                          {absent: true},
		"Error: No such object: demo":                                                                                                                                     {absent: true},
		"Error response from daemon: Could not find the file /kind/lab.json in container 4711":                                                                            {noFile: true},
		"Error: No such container:path: demo:/kind/lab.json":                                                                                                              {absent: true, noFile: true},
		"Error response from daemon: lstat /var/lib/docker/overlay2/1/merged/kind/lab.json: no such file or directory":                                                    {absent: true, noFile: true},
		"Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?":                                                               {},
		"failed to connect to the docker API at unix:///var/run/docker.sock: dial unix /var/run/docker.sock: no such file or directory":                                   {},
		`Failed to initialize: unable to resolve docker endpoint: context "vm": context not found: open meta.json: no such file or directory`:                             {},
		`error during connect: Get "http://vm:2375/v1.50/volumes/x": dial tcp: lookup vm on 127.0.0.53:53: no such host`:                                                  {},
		"error during connect: Get \"http://docker.example.com/v1.50/volumes/x\": command [ssh vm docker system dial-stdio] has exited: stderr=docker: command not found": {},
	} {
		err := error(&Error{Args: []string{"inspect"}, Stderr: text, Err: errors.New("exit status 1")})
		if got := NotFound(err); got != want.absent {
			t.Errorf("NotFound = %v: %s", got, text)
		}
		if got := errors.Is(err, ErrNoFile); got != want.noFile {
			t.Errorf("NoFile = %v: %s", got, text)
		}
	}
}

// The words are those of Docker 20.10 to 29.
func TestCauses(t *testing.T) {
	causes := []Cause{
		ErrNotFound, ErrRemoved, ErrNameTaken, ErrInUse, ErrNoFile, ErrNotPaused, ErrNoExit, ErrOverlaps, ErrNoIPv6, ErrNoSpace, ErrCapabilities, errNoNetwork, errConnected, errNotConnected,
	}
	for text, want := range map[string][]Cause{
		"Error: No such container: demo":                                                                                                        {ErrNotFound, ErrRemoved},
		"Error response from daemon: removal of container demo is already in progress":                                                          {ErrRemoved},
		`Conflict. The container name "/demo" is already in use by container "4711". You have to remove (or rename) that container.`:            {ErrNameTaken},
		"Error response from daemon: remove demo: volume is in use - [4711]":                                                                    {ErrInUse},
		"conflict: unable to remove repository reference \"a:1\" (must force) - container 47 is using its referenced image 11":                  {ErrInUse},
		"conflict: unable to delete 4711 (cannot be forced) - image is being used by running container 11":                                      {ErrInUse},
		"Error response from daemon: Container demo is not paused":                                                                              {ErrNotPaused},
		"Could not kill running container 4711, cannot remove - tried to kill container, but did not receive an exit event":                     {ErrNoExit},
		"Error response from daemon: Pool overlaps with other one on this address space":                                                        {ErrOverlaps},
		"cannot create network 4711 (br-4711): conflicts with network 11 (br-11): networks have overlapping IPv4":                               {ErrOverlaps},
		"Error response from daemon: could not find an available, non-overlapping IPv6 address pool among the defaults":                         {ErrNoIPv6},
		"Failed to Setup IP tables: Unable to enable NAT rule: (iptables failed: ip6tables --wait -t nat)":                                      {ErrNoIPv6},
		"Error processing tar file(exit status 1): write /layer.tar: no space left on device":                                                   {ErrNoSpace},
		"OCI runtime create failed: unable to apply caps: operation not permitted: unknown":                                                     {ErrCapabilities},
		"Error response from daemon: network lab-demo not found\nError: failed to start containers: demo":                                       {ErrNotFound, errNoNetwork},
		"Error response from daemon: endpoint with name demo already exists in network lab-demo":                                                {errConnected},
		"Error response from daemon: container 4711 is not connected to network lab-demo":                                                       {errNotConnected},
		`error during connect: Get "http://vm/v1.50/volumes": dial tcp [fd00::1]:2375: connection refused, volume is in use, no such container`: nil,
	} {
		err := fmt.Errorf("forge: %w", &Error{Args: []string{"x"}, Stderr: text, Err: errors.New("exit status 1")})
		var got []Cause
		for _, c := range causes {
			if errors.Is(err, c) {
				got = append(got, c)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestAnswers(t *testing.T) {
	script := filepath.Join(t.TempDir(), "docker")
	d := &Docker{program: script}
	install := func(body string) {
		t.Helper()
		if err := os.WriteFile(script, []byte("#!/bin/sh\n"+body), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	install(`case $1 in info) echo '{"ID":"e1","ServerVersion":"28"}' ;; context) echo unix:///run/docker.sock ;; esac`)
	id, err := d.ID(t.Context())
	if err != nil || id != "e1" {
		t.Errorf("%q, %v", id, err)
	}
	if address, err := d.Endpoint(t.Context()); err != nil || address != "unix:///run/docker.sock" {
		t.Errorf("%q, %v", address, err)
	}
	install("exec sleep 60")
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	time.AfterFunc(50*time.Millisecond, func() { cancel(enough) })
	if err := d.Answers(ctx); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
	d.patience = 50 * time.Millisecond
	var e *lab.Error
	if err := d.Answers(t.Context()); !errors.As(err, &e) || e.Code != "no_engine" || e.Cure == "" || !strings.Contains(err.Error(), "no answer within") {
		t.Errorf("%v", err)
	}
}

func TestLogsHaveBothStreams(t *testing.T) {
	script := filepath.Join(t.TempDir(), "docker")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n[ \"$*\" = 'logs --tail 7 c' ] || { echo no such container >&2; exit 1; }\necho out; echo err >&2"), 0o755); err != nil {
		t.Fatal(err)
	}
	d := &Docker{program: script}
	if out, err := d.Logs(t.Context(), "c", 7); err != nil || string(out) != "out\nerr\n" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := d.Logs(t.Context(), "d", 7); !NotFound(err) {
		t.Errorf("%v", err)
	}
}

// Only new privileged containers are started by the wrapper, once it is there.
func TestWrapper(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":/bin:/usr/bin")
	install := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho "+name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	install("docker")
	d := WithWrapper(filepath.Join(dir, "wrapper"))
	ran := func(args ...string) string {
		out, err := d.Output(t.Context(), nil, args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	if got := ran("run", "--privileged", "x"); got != "docker" {
		t.Errorf("%s without a wrapper", got)
	}
	install("wrapper")
	for args, want := range map[string]string{"run --rm --privileged x": "wrapper", "run --rm x": "docker", "exec --privileged x": "docker"} {
		if got := ran(strings.Fields(args)...); got != want {
			t.Errorf("%s: %s", args, got)
		}
	}
}
