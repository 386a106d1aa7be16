package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/storage/memory"
)

const (
	user     = "lab"
	password = "forge's"
)

// forge serves the bare repository lab/gitops.git as Gitea does: smart HTTP with a password.
func forge(t *testing.T) string {
	t.Helper()
	execPath, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Skip("git not found")
	}
	root := t.TempDir()
	bare, work := filepath.Join(root, "lab", "gitops.git"), t.TempDir()
	for _, args := range [][]string{
		{"init", "-q", "--bare", "-b", "main", bare},
		{"-C", bare, "config", "http.receivepack", "true"},
		{"init", "-q", "-b", "main", work},
		{"-C", work, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "first"},
		{"-C", work, "push", "-q", bare, "main"},
	} {
		if out, err := gitCommand(t, nil, args...); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	h := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(execPath)), "git-http-backend"), Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=" + user},
	}
	if _, err := os.Stat(h.Path); err != nil {
		t.Skip("git http-backend not found")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil { // CGI needs a length
			r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		}
		if u, p, _ := r.BasicAuth(); u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="Gitea"`)
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func gitCommand(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0"}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var quiet = slog.New(slog.DiscardHandler)

// start runs a server on loopback for the duration of the test, and returns its URLs for Git and webhooks.
func start(t *testing.T, c Config, s Secrets) (git, webhooks string) {
	t.Helper()
	l := startAll(t, c, s)
	proxy := url.URL{Scheme: "http", User: url.UserPassword(ClientUser, ClientPassword(s.Webhook)), Host: l.Git.Addr().String()}
	return proxy.String(), "http://" + l.Webhooks.Addr().String()
}

// startAll is start for all ports.
func startAll(t *testing.T, c Config, s Secrets) Listeners {
	t.Helper()
	c.Proxy, c.SSH, c.Webhooks = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	server, err := New(c, s, quiet)
	if err != nil {
		t.Fatal(err)
	}
	l, err := server.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return l
}

func mirrors(forge string) Config {
	return Config{Mirrors: []Mirror{
		{Upstream: "https://github.test/Acme/gitops", URL: forge + "/lab/gitops.git"},
		{Upstream: "http://plain.test/acme/gitops.git", URL: forge + "/lab/gitops.git"},
		{Upstream: "https://192.0.2.1:8443/acme/gitops", URL: forge + "/lab/gitops.git"},
		{Upstream: "https://github.test/acme/gone", URL: "http://127.0.0.1:1/lab/gone.git"},
	}}
}

func TestGitMirror(t *testing.T) {
	proxyURL, _ := start(t, mirrors(forge(t)), Secrets{Webhook: "w", User: user, Password: password})
	env := []string{"https_proxy=" + proxyURL, "http_proxy=" + proxyURL, "GIT_SSL_NO_VERIFY=1"}
	for _, address := range []string{
		"https://github.test/acme/gitops", "https://github.test/acme/gitops.git", "https://GitHub.test/ACME/GitOps.git", "https://github.test/acme/gitops/",
		"https://192.0.2.1:8443/acme/gitops", "http://plain.test/acme/gitops", "https://token:x@github.test/acme/gitops",
	} {
		out, err := gitCommand(t, env, "ls-remote", address)
		if err != nil || !strings.Contains(out, "refs/heads/main") {
			t.Errorf("ls-remote %s: %v: %s", address, err, out)
		}
	}
	to := t.TempDir()
	if out, err := gitCommand(t, env, "clone", "-q", "https://github.test/acme/gitops", to); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := gitCommand(t, env, "-C", to, "log", "--format=%s"); err != nil || out != "first\n" {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := gitCommand(t, env, "-C", to, "push", "origin", "main:other"); err == nil || !strings.Contains(out, "403") {
		t.Errorf("push: %v: %s", err, out)
	}
	for address, want := range map[string]string{
		"https://github.test/acme/other":  "github.test/acme/other is not mounted",
		"https://gitlab.test/acme/gitops": "502",
		"http://gitlab.test/acme/gitops":  "gitlab.test/acme/gitops is not mounted",
		"https://github.test/acme/gone":   "502",
	} {
		out, err := gitCommand(t, env, "ls-remote", address)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v: %s; want %q", address, err, out, want)
		}
	}
}

// Only the engine has the proxy's password. Any pod can reach the proxy.
func TestGitUnauthorized(t *testing.T) {
	proxyURL, _ := start(t, mirrors(forge(t)), Secrets{Webhook: "w", User: user, Password: password})
	for name, as := range map[string]*url.Userinfo{"nobody": nil, "wrong password": url.UserPassword(ClientUser, ClientPassword("another")), "the forge's": url.UserPassword(user, password)} {
		u, err := url.Parse(proxyURL)
		if err != nil {
			t.Fatal(err)
		}
		u.User = as
		for _, address := range []string{"https://github.test/acme/gitops", "http://plain.test/acme/gitops"} {
			out, err := gitCommand(t, []string{"https_proxy=" + u.String(), "http_proxy=" + u.String(), "GIT_SSL_NO_VERIFY=1"}, "ls-remote", address)
			if err == nil || strings.Contains(out, "refs/heads") || !strings.Contains(out, "407") {
				t.Errorf("%s, %s: %v: %s", name, address, err, out)
			}
		}
	}
}

// The forge gets the credentials in Secrets, never the client's, which are for upstream.
func TestGitClientCredentials(t *testing.T) {
	proxyURL, _ := start(t, mirrors(forge(t)), Secrets{Webhook: "w"})
	env := []string{"https_proxy=" + proxyURL, "http_proxy=" + proxyURL, "GIT_SSL_NO_VERIFY=1"}
	for _, host := range []string{"https://%s@github.test/acme/gitops", "http://%s@plain.test/acme/gitops"} {
		address := fmt.Sprintf(host, user+":"+url.PathEscape(password))
		if out, err := gitCommand(t, env, "ls-remote", address); err == nil || strings.Contains(out, "refs/heads") {
			t.Errorf("%s: the client's credentials reached the forge: %s", address, out)
		}
	}
}

// Argo CD lists branches with go-git.
func TestGoGitMirror(t *testing.T) {
	proxyURL, _ := start(t, mirrors(forge(t)), Secrets{Webhook: "w", User: user, Password: password})
	const address = "https://github.test/acme/gitops"
	remote := git.NewRemote(memory.NewStorage(), &config.RemoteConfig{Name: "origin", URLs: []string{address}})
	refs, err := remote.ListContext(t.Context(), &git.ListOptions{InsecureSkipTLS: true, ProxyOptions: transport.ProxyOptions{URL: proxyURL}})
	if err != nil || len(refs) == 0 {
		t.Errorf("list: %v, %v", refs, err)
	}
	parsed, err := url.Parse(proxyURL)
	if err != nil {
		t.Fatal(err)
	}
	client := githttp.NewClient(&http.Client{Transport: &http.Transport{
		Proxy: http.ProxyURL(parsed), DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}})
	ep, err := transport.NewEndpoint(address)
	if err != nil {
		t.Fatal(err)
	}
	session, err := client.NewUploadPackSession(ep, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	adv, err := session.AdvertisedReferencesContext(t.Context())
	if err != nil || adv.References["refs/heads/main"].IsZero() {
		t.Errorf("upload-pack session, as in Argo CD: %v, %v", adv, err)
	}
}

func TestServeProxyStatus(t *testing.T) {
	requests := 0
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests++ }))
	defer upstream.Close()
	server, err := New(Config{Mirrors: []Mirror{{Upstream: "https://github.test/acme/gitops", URL: upstream.URL + "/lab/gitops.git"}}}, Secrets{Webhook: "w"}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, target string
		status         int
	}{
		{"GET", "http://github.test/acme/gitops/info/refs?service=git-upload-pack", 200},
		{"POST", "http://github.test/acme/gitops.git/git-upload-pack", 200},
		{"GET", "http://github.test/acme/gitops/info/refs?service=git-receive-pack", 403},
		{"POST", "http://github.test/acme/gitops/git-receive-pack", 403},
		{"GET", "http://github.test/acme/gitops/info/refs", 404},
		{"GET", "http://github.test/acme/gitops/git-upload-pack", 404},
		{"POST", "http://github.test/acme/gitops/info/refs?service=git-upload-pack", 404},
		{"POST", "http://github.test/acme/gitops/info/lfs/objects/batch", 404},
		{"GET", "http://github.test/acme/gitops/HEAD", 404},
		{"GET", "http://github.test/acme/other/info/refs?service=git-upload-pack", 404},
		{"GET", "http://github.test/", 404},
		{"GET", "/healthz", 200},
		{"GET", "/acme/gitops/info/refs?service=git-upload-pack", 400},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(c.method, c.target, nil)
		as := http.Request{Header: http.Header{}}
		as.SetBasicAuth(ClientUser, ClientPassword("w"))
		r.Header.Set("Proxy-Authorization", as.Header.Get("Authorization"))
		server.serveProxy(w, r)
		if w.Code != c.status {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.target, w.Code, w.Body, c.status)
		}
	}
	if requests != 2 {
		t.Errorf("got %d requests to the forge, want 2", requests)
	}
}
