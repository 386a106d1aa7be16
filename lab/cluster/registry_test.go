package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"homelab/lab"
)

// The scripts of a node: what they write is as wanted, and nobody else's is touched.
func TestHosts(t *testing.T) {
	dir := t.TempDir()
	run := func(script string, r lab.Registry) string {
		t.Helper()
		cmd := exec.Command("sh", "-c", strings.ReplaceAll(script, "/etc/containerd/certs.d", dir), "sh", strings.TrimSpace(mark), neverVerify)
		cmd.Stdin = strings.NewReader(hosts(r))
		out, err := cmd.Output()
		if err != nil && script == configure {
			t.Fatal(err)
		}
		return string(out)
	}
	foreign := filepath.Join(dir, "a.example.com", "hosts.toml")
	if err := os.MkdirAll(filepath.Dir(foreign), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(foreign, []byte("server = \"https://a.example.com\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	alone := lab.Registry{Host: "registry:5000", User: "lab", Password: "secret"}
	through := alone
	through.Through = []lab.Upstream{{Host: "registry", URL: "https://registry"}, {Host: "docker.io", URL: "https://registry-1.docker.io"}}
	for _, r := range []lab.Registry{alone, through, alone} {
		if out := run(familiar, r); !strings.Contains(out, "hosts") {
			t.Errorf("%+v: known before", r)
		}
		run(configure, r)
		if out := run(familiar, r); strings.Contains(out, "hosts") {
			t.Errorf("%+v: not known", r)
		}
		text, err := os.ReadFile(filepath.Join(dir, "docker.io", "hosts.toml"))
		if cached := err == nil; cached != (len(r.Through) > 0) {
			t.Errorf("%+v: docker.io has %q, %v", r, text, err)
		}
		if want := mark + "server = \"https://registry-1.docker.io\"\n\n[host.\"http://registry-docker-io:5000\"]\ncapabilities = [\"pull\", \"resolve\"]\n"; err == nil && string(text) != want {
			t.Errorf("got %s", text)
		}
		if _, err := os.Stat(foreign); err != nil {
			t.Error(err)
		}
	}
}
