package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"homelab/lab"
	"homelab/lab/state"
	"homelab/lab/trust"
)

// trap is a server that counts connections, a folder of an estate, and a file that a program would create.
type trap struct {
	url, estate, canary string
	connections         atomic.Int32
}

func newTrap(t *testing.T) *trap {
	t.Helper()
	dir := t.TempDir()
	p := &trap{estate: filepath.Join(dir, "estate"), canary: filepath.Join(dir, "canary")}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			p.connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	p.url = server.URL
	if err := os.MkdirAll(p.estate, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", filepath.Join(dir, "home"))
	t.Setenv("KUBECONFIG", "")
	return p
}

// write writes a kubeconfig beside the estate with the given parts of user and cluster.
func (p *trap) write(t *testing.T, file, user, cluster string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: prod\ncontexts: [{name: prod, context: {cluster: prod, user: me}}]\nclusters:\n- name: prod\n  cluster:\n    server: %s\n%s"+
		"users:\n- name: me\n  user:\n%s", p.url, cluster, user)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (p *trap) existing(t *testing.T, kubeconfig string, agreed func(trust.Thing) bool) *Existing {
	t.Helper()
	return NewExisting(&state.Dir{Lab: "demo", Path: t.TempDir()}, &lab.Estate{Dir: p.estate, Clusters: []lab.Cluster{{
		Name: "edge", File: "clusters/edge/cluster.yaml", Provider: lab.ProviderExisting, Existing: lab.Existing{Kubeconfig: kubeconfig, Server: "https://edge:6443"},
		Positions: map[string]lab.Position{"spec.existing": {File: "clusters/edge/cluster.yaml", Line: 8}},
	}}}, agreed)
}

// sprung reports what happened that must not.
func (p *trap) sprung(t *testing.T) {
	t.Helper()
	if n := p.connections.Load(); n > 0 {
		t.Errorf("%d connections", n)
	}
	if _, err := os.Stat(p.canary); err == nil {
		t.Error("a program ran")
	}
}

func nobody(trust.Thing) bool { return false }

// execOf is a user whose credentials a program gets.
func (p *trap) execOf() string {
	return "    exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: touch, args: [" + p.canary + "]}\n"
}

// A kubeconfig that the estate brings may neither run programs nor read other files, whether the estate is trusted or not.
func TestKubeconfigsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		user, cluster string
		line          int
		want          string
	}{
		"exec":                  {user: "EXEC", line: 12, want: "exec runs a program"},
		"auth-provider":         {user: "    auth-provider: {name: gcp, config: {cmd-path: touch}}\n", line: 12, want: "auth-provider runs a program"},
		"tokenFile":             {user: "    tokenFile: /etc/passwd\n", line: 12, want: "tokenFile sends a file"},
		"tokenFile inside":      {user: "    tokenFile: token\n", line: 12, want: "tokenFile sends a file"},
		"client-certificate":    {user: "    client-certificate: ../../etc/passwd\n    client-key: key\n", line: 12, want: "client-certificate reads a file elsewhere"},
		"client-key":            {user: "    client-certificate: cert\n    client-key: link\n", line: 13, want: "client-key reads a file elsewhere"},
		"certificate-authority": {user: "    token: x\n", cluster: "    certificate-authority: /etc/passwd\n", line: 9, want: "certificate-authority reads a file elsewhere"},
		"proxy-url":             {user: "    token: x\n", cluster: "    proxy-url: http://evil.example.com\n", line: 9, want: "proxy-url redirects to another server"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTrap(t)
			file := filepath.Join(filepath.Dir(p.estate), "kube", "x.yaml")
			p.write(t, file, strings.ReplaceAll(c.user, "EXEC", strings.TrimSuffix(p.execOf(), "\n")+"\n"), c.cluster)
			if err := errors.Join(os.WriteFile(p.canary+".elsewhere", nil, 0o600), os.Symlink(p.canary+".elsewhere", filepath.Join(filepath.Dir(file), "link"))); err != nil {
				t.Fatal(err)
			}
			e := p.existing(t, "../kube/x.yaml", trusted)
			_, listed := e.Outside()
			_, used := e.RESTConfig("edge")
			for _, err := range []error{listed, used} {
				var le *lab.Error
				if !errors.As(err, &le) || le.Exit != lab.ExitInvalid || len(le.Problems) != 1 {
					t.Fatalf("%v", err)
				}
				if at := le.Problems[0]; !strings.Contains(at.Message, c.want) || at.File != file || at.Line != c.line || at.Cure == "" {
					t.Errorf("%s", at)
				}
			}
			if states, err := e.Observe(t.Context()); err != nil || len(states) != 0 {
				t.Errorf("%v, %v", states, err)
			}
			p.sprung(t)
		})
	}
}

// Files beside the kubeconfig are its own.
func TestKubeconfigWithItsFiles(t *testing.T) {
	p := newTrap(t)
	file := p.write(t, filepath.Join(filepath.Dir(p.estate), "kube", "x.yaml"), "    client-certificate: pki/cert\n    client-key: ./key\n", "    certificate-authority: ca\n")
	for _, name := range []string{"pki/cert", "key", "ca"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(filepath.Dir(file), name)), 0o755), os.WriteFile(filepath.Join(filepath.Dir(file), name), []byte(name), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if cfg, err := p.existing(t, file, trusted).access("edge"); err != nil || string(cfg.AuthInfos["me"].ClientKeyData) != "key" {
		t.Errorf("%v", err)
	}
}

// Nothing is asked of a server that nobody agreed to. What was agreed to is asked about again once the server, the user or the address for the hub change.
func TestExistingUntrusted(t *testing.T) {
	p := newTrap(t)
	file := p.write(t, filepath.Join(os.Getenv("HOME"), ".kube", "config"), p.execOf(), "")
	t.Setenv("KUBECONFIG", file) // client-go knows the home folder from its start
	for _, written := range []string{"", "~/.kube/config", file} {
		e := p.existing(t, written, nobody)
		if err := e.state.SaveCluster("edge", state.Cluster{Attached: true, Whole: true}); err != nil {
			t.Fatal(err)
		}
		things, err := e.Outside()
		if err != nil || len(things) != 2 || things[0].Kind != trust.Cluster || !strings.Contains(things[0].What, p.url) || things[1].Kind != trust.Plugin || things[0].At.Line != 8 {
			t.Errorf("%q: %v, %v", written, things, err)
		}
		states, err := e.Observe(t.Context())
		if err != nil || len(states) != 1 || states[0].Phase() != Untrusted || states[0].Answers {
			t.Errorf("%q: %+v, %v", written, states, err)
		}
		var le *lab.Error
		if err := e.Create(t.Context(), edgeSpec(), nil); !errors.As(err, &le) || le.Code != CodeUntrusted || le.Exit != lab.ExitInvalid || le.Cure == "" {
			t.Errorf("%q: %v", written, err)
		}
		p.sprung(t)

		agreed := trust.Set{}
		for _, thing := range things {
			agreed[thing.Digest()] = true
		}
		e.agreed = agreed.Has
		if _, err := e.RESTConfig("edge"); err != nil {
			t.Errorf("%q: %v", written, err)
		}
		c := e.estate["edge"]
		c.Existing.Server = "https://evil.example.com"
		e.estate["edge"] = c
		if _, err := e.RESTConfig("edge"); !untrusted(err) {
			t.Errorf("%q: another address for the hub: %v", written, err)
		}
	}
	e := p.existing(t, "", nobody)
	things, _ := e.Outside()
	agreed := trust.Set{things[0].Digest(): true, things[1].Digest(): true}
	e.agreed = agreed.Has
	url := p.url
	p.url = "https://other.example.com"
	p.write(t, file, p.execOf(), "")
	if _, err := e.RESTConfig("edge"); !untrusted(err) {
		t.Errorf("another server: %v", err)
	}
	p.url = url
	p.write(t, file, strings.Replace(p.execOf(), "touch", "chmod", 1), "")
	if _, err := e.RESTConfig("edge"); !untrusted(err) {
		t.Errorf("another program: %v", err)
	}
	p.sprung(t)
}

// lab down releases a cluster by lab's copy, which was agreed to, whatever the estate says now.
func TestExistingLeaving(t *testing.T) {
	o := newFakeCluster()
	e := newTestExisting(t, "demo", o)
	attachEdge(t, e)
	e.agreed = nobody
	if err := e.Delete(t.Context(), "edge"); !untrusted(err) {
		t.Errorf("%v", err)
	}
	e.Leaving = true
	if states, err := e.Observe(t.Context()); err != nil || len(states) != 1 || !states[0].Answers {
		t.Errorf("%+v, %v", states, err)
	}
	if err := e.Delete(t.Context(), "edge"); err != nil || e.state.Cluster("edge").Attached {
		t.Errorf("%v", err)
	}
}

// A path that leads to no ordinary file neither blocks nor fills memory.
func TestKubeconfigNoFile(t *testing.T) {
	p := newTrap(t)
	fifo := filepath.Join(filepath.Dir(p.estate), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/dev/zero", fifo, p.estate} {
		if _, err := p.existing(t, path, trusted).RESTConfig("edge"); err == nil || !strings.Contains(err.Error(), "is not a file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
