package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"homelab/lab/door/authority"
	"homelab/lab/door/proxy"
)

func freePorts(t *testing.T) (a, b int) {
	t.Helper()
	for _, p := range []*int{&a, &b} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		*p = l.Addr().(*net.TCPAddr).Port
	}
	return a, b
}

// writer is called with each line of a log.
type writer func(line string)

func (w writer) Write(line []byte) (int, error) {
	w(string(line))
	return len(line), nil
}

// The program serves what a cluster has, on the ports of its configuration, and follows a new one.
func TestRun(t *testing.T) {
	var mu sync.Mutex
	patched := map[string]bool{}
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPatch:
			mu.Lock()
			patched[r.URL.Path] = true
			mu.Unlock()
			fmt.Fprint(w, "{}")
		case r.URL.Query().Get("watch") != "":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case r.URL.Path == "/api/v1/services":
			fmt.Fprint(w, `{"items":[{"metadata":{"namespace":"app","name":"podinfo"},"spec":{"type":"LoadBalancer","clusterIP":"10.96.0.1","ports":[{"port":80,"nodePort":30080}]}}]}`)
		case strings.HasSuffix(r.URL.Path, "/ingresses"):
			fmt.Fprint(w, `{"items":[]}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer api.Close()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer backend.Close()

	a, err := authority.New("demo.localhost", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := a.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, v any) {
		t.Helper()
		data, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".new"), data, 0o600)
		}
		if err == nil {
			err = os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	refused := make(chan struct{}, 1)
	log := slog.New(slog.NewTextHandler(writer(func(line string) {
		if strings.Contains(line, "the configuration is not used") {
			select {
			case refused <- struct{}{}:
			default:
			}
		}
	}), nil))
	dial := func(ctx context.Context, c proxy.Cluster, ip string, port int) (net.Conn, error) {
		if c.Name != "dev" || ip != "" || port != 30080 {
			return nil, fmt.Errorf("unexpected %s %s %d", c.Name, ip, port)
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", backend.Listener.Addr().String())
	}
	first, second := freePorts(t)
	ports := map[int]bool{first: true, second: false}
	if err := run(t.Context(), dir, time.Millisecond, ports, dial, log); err == nil {
		t.Fatal("runs without a configuration")
	}
	write(settingsFile, proxy.Settings{Domain: "demo.localhost", Authority: string(key)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	https, http80 := freePorts(t)
	ports[https] = true
	go func() { done <- run(ctx, dir, 5*time.Millisecond, ports, dial, log) }()

	roots := x509.NewCertPool()
	roots.AddCert(a.Certificate)
	get := func(port int) string {
		client := &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			},
		}}
		resp, err := client.Get("https://podinfo.dev.demo.localhost:" + strconv.Itoa(port))
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.Status + " " + string(body)
	}
	await := func(what string, ok func() (string, bool)) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		deadline := time.After(20 * time.Second)
		for {
			last, is := ok()
			if is {
				return
			}
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatalf("not %s: %s", what, last)
			}
		}
	}
	answers := func(port int, want string) func() (string, bool) {
		return func() (string, bool) { got := get(port); return got, strings.Contains(got, want) }
	}
	await("serving", answers(first, "404"))
	reach := proxy.Reach{HTTPS: https, HTTP: http80, Clusters: []proxy.Cluster{{
		Name: "dev", Node: "dev-node", Server: api.URL, Token: "t", CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})),
	}}}
	write(reachFile, reach)
	await("serving a cluster", answers(first, "200 OK hello"))
	await("on the port of the host", answers(https, "200 OK hello"))
	await("writing addresses", func() (string, bool) {
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprint(patched), patched["/api/v1/namespaces/app/services/podinfo/status"]
	})
	write(reachFile, "nonsense")
	select {
	case <-refused:
	case <-time.After(20 * time.Second):
		t.Fatal("an invalid configuration is not reported")
	}
	if got := get(first); !strings.Contains(got, "hello") {
		t.Errorf("after an invalid configuration: %s", got)
	}
	reach.Clusters = nil
	write(reachFile, reach)
	await("without the cluster", answers(first, "404"))
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
