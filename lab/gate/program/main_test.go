package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestGuard(t *testing.T) {
	var seen *http.Request
	to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(append([]byte("got "), body...))
	}))
	defer to.Close()
	gate := httptest.NewServer(guard([]string{"localhost", "127.0.0.1", "lab-demo-forge"}, forward(strings.TrimPrefix(to.URL, "http://"))))
	defer gate.Close()
	for host, want := range map[string]int{
		"localhost": 200, "127.0.0.1:3000": 200, "LOCALHOST:1": 200, "lab-demo-forge:3000": 200, "lab-demo-forge.": 200, "": 200, // the address itself
		"evil.example": 421, "evil.example:3000": 421, "127.0.0.1.evil.example": 421, "evil.example#@localhost": 421, "[::1]:3000": 421, "10.0.0.1": 421, "lab-demo-forge.evil.example": 421,
	} {
		seen = nil
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gate.URL+"/lab/estate.git/git-upload-pack?a=b;c", strings.NewReader("pack"))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("Authorization", "Basic x")
		req.Header.Set("X-Forwarded-Host", "evil.example")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Errorf("host %q: %v", host, err)
			continue
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != want || (seen != nil) != (want == 200) {
			t.Errorf("host %q: %s %q, %v; reached the server: %t", host, resp.Status, text, err, seen != nil)
		}
		if seen != nil && (string(text) != "got pack" || seen.Host != cmpHost(host, gate.URL) || seen.Header.Get("Authorization") != "Basic x" || seen.Header.Get("X-Forwarded-Host") != "") {
			t.Errorf("host %q: the server got %+v, answers %q", host, seen, text)
		}
	}
}

// cmpHost returns the Host header that Go's client sends.
func cmpHost(host, address string) string {
	if host == "" {
		return strings.TrimPrefix(address, "http://")
	}
	return host
}

// A request without a Host header, as of HTTP/1.0, is rejected.
func TestNoHost(t *testing.T) {
	gate := httptest.NewServer(guard([]string{"localhost"}, forward("127.0.0.1:1")))
	defer gate.Close()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(gate.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(c)
	if err != nil || !bytes.HasPrefix(text, []byte("HTTP/1.0 421 ")) {
		t.Errorf("%s, %v", text, err)
	}
}

// The gate lives as long as its command, and ends with its exit code.
func TestRun(t *testing.T) {
	if until := os.Getenv("GATE_TEST_END"); until != "" { // the command: it ends with its connection
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", until)
		if err == nil {
			_, err = io.Copy(io.Discard, c)
		}
		if err != nil {
			os.Exit(1)
		}
		os.Exit(7)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	until, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer until.Close()
	t.Setenv("GATE_TEST_END", until.Addr().String())
	free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := free.Addr().String()
	if err := run(at, guard([]string{"127.0.0.1"}, forward("127.0.0.1:1")), []string{self}, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("listened at a taken address")
	}
	free.Close()
	ended := make(chan error, 1)
	go func() {
		ended <- run(at, guard([]string{"127.0.0.1"}, forward("127.0.0.1:1")), []string{self, "-test.run=^TestRun$"}, slog.New(slog.DiscardHandler))
	}()
	answered := false
	for !answered {
		select {
		case err := <-ended:
			t.Fatalf("ended with %v before it answered", err)
		default:
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			answered = resp.StatusCode == http.StatusBadGateway
		}
	}
	command, err := until.Accept()
	if err != nil {
		t.Fatal(err)
	}
	command.Close()
	var exit *exec.ExitError
	if err := <-ended; !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("ended with %v, want exit code 7", err)
	}
	if err := run(at, nil, nil, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("ran no command")
	}
}

// A guest does what its list says and nothing else, with a token that it does not have. Others are not concerned.
func TestGuests(t *testing.T) {
	to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		fmt.Fprintf(w, "%s:%s", user, password)
	}))
	defer to.Close()
	file := filepath.Join(t.TempDir(), "guests.json")
	gate := httptest.NewServer(guard([]string{"127.0.0.1"}, admit(file, forward(strings.TrimPrefix(to.URL, "http://")))))
	defer gate.Close()
	call := func(method, path, user, password string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, gate.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			req.SetBasicAuth(user, password)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	if code, text := call(http.MethodGet, "/x", "lab-runner", "own"); code != http.StatusOK || text != "lab-runner:own" {
		t.Errorf("without a file: %d %s", code, text)
	}
	text := `[{"User": "lab-runner", "Password": "own", "Token": "gitea's", "May": ["GET /api/pulls", "POST /api/statuses/*", "POST /lab/estate.git/git-upload-pack"]}, {"User": "none", "Token": "t"}]`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path, user, password string
		code                         int
		text                         string
	}{
		{"GET", "/api/pulls", "lab-runner", "own", 200, "lab-runner:gitea's"},
		{"GET", "/api/pulls?state=open", "lab-runner", "own", 200, "lab-runner:gitea's"},
		{"POST", "/api/statuses/abc", "lab-runner", "own", 200, "lab-runner:gitea's"},
		{"GET", "/api/pulls", "lab-runner", "gitea's", 401, ""},
		{"GET", "/api/pulls", "lab-runner", "", 401, ""},
		{"GET", "/api/pulls", "none", "", 401, ""},
		{"POST", "/api/pulls", "lab-runner", "own", 403, ""},
		{"POST", "/api/statuses/abc/merge", "lab-runner", "own", 403, ""},
		{"POST", "/api/statuses/..%2fmerge", "lab-runner", "own", 403, ""},
		{"POST", "/api/statuses/%2e%2e/x", "lab-runner", "own", 403, ""},
		{"POST", "/api//statuses/abc", "lab-runner", "own", 403, ""},
		{"POST", "/lab/estate.git/git-receive-pack", "lab-runner", "own", 403, ""},
		{"GET", "/lab/estate.git/info/refs?service=git-receive-pack", "lab-runner", "own", 403, ""},
		{"POST", "/lab/estate.git/git-receive-pack", "lab", "admin's", 200, "lab:admin's"},
		{"GET", "/x", "", "", 200, ":"},
	} {
		code, text := call(c.method, c.path, c.user, c.password)
		if code != c.code || c.text != "" && text != c.text {
			t.Errorf("%s %s as %s:%s: %d %s, want %d %s", c.method, c.path, c.user, c.password, code, text, c.code, c.text)
		}
	}
}
