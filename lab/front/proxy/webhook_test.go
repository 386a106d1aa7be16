package proxy

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// payload is the relevant part of Gitea's push webhook.
const payload = `{
  "ref": "refs/heads/main",
  "compare_url": "http://lab-x-forge:3000/lab/gitops/compare/a...b",
  "commits": [{"url": "http://lab-x-forge:3000/lab/gitops/commit/b", "message": "see http://lab-x-forge:3000/lab/gitops", "added": ["a"]}],
  "repository": {
    "id": 12345678901234567,
    "full_name": "lab/gitops",
    "html_url": "http://lab-x-forge:3000/lab/gitops",
    "clone_url": "http://127.0.0.1:3100/lab/gitops.git",
    "ssh_url": "git@lab-x-forge:lab/gitops.git",
    "original_url": "",
    "default_branch": "main"
  },
  "sender": {"avatar_url": "http://lab-x-forge:3000/avatars/1"}
}`

// receiver is a fake engine that records webhooks.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	bodies  []string
	headers []http.Header
	arrived chan struct{} // once per webhook
}

func engine(t *testing.T, status func(body string) int) *receiver {
	t.Helper()
	e := &receiver{arrived: make(chan struct{}, 16)}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.bodies, e.headers = append(e.bodies, string(body)), append(e.headers, r.Header)
		w.WriteHeader(status(string(body)))
		e.arrived <- struct{}{}
	}))
	t.Cleanup(e.Close)
	return e
}

func push(t *testing.T, url, body string, header http.Header) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+WebhookPath+"?lab=1234", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// header returns the headers of Gitea's webhook.
func header(secret, body string) http.Header {
	h := http.Header{"X-Gogs-Event": {"push"}, "X-Gitea-Event": {"push"}, "Content-Type": {"application/json"}, "Authorization": {"secret"}}
	sign(h, secret, []byte(body))
	return h
}

func TestWebhookForwarded(t *testing.T) {
	e := engine(t, func(string) int { return http.StatusOK })
	c := mirrors("http://lab-x-forge:3000")
	c.Mirrors, c.Engine = c.Mirrors[:1], e.URL
	_, url := start(t, c, Secrets{Webhook: "s3cret"})
	if status := push(t, url, payload, header("s3cret", payload)); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	if len(e.bodies) != 2 {
		t.Fatalf("got %d requests to the engine, want 2", len(e.bodies))
	}
	for i, h := range e.headers {
		if !signed(h, "s3cret", []byte(e.bodies[i])) || h.Get("X-Gogs-Event") != "push" || h.Get("Content-Type") != "application/json" || h.Get("Authorization") != "" {
			t.Errorf("header %v", h)
		}
	}
	i := slices.Index(e.bodies, payload)
	if i < 0 {
		t.Fatal("unchanged payload not forwarded")
	}
	var got, want any
	expected := strings.NewReplacer(
		`"http://lab-x-forge:3000/lab/gitops`, `"https://github.test/Acme/gitops`, `"http://127.0.0.1:3100/lab/gitops`, `"https://github.test/Acme/gitops`,
		`git@lab-x-forge:lab/gitops`, `git@github.test:Acme/gitops`,
	).Replace(payload)
	if err := json.Unmarshal([]byte(e.bodies[1-i]), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(expected), &want); err != nil {
		t.Fatal(err)
	}
	if g, w := indent(t, got), indent(t, want); g != w || !strings.Contains(e.bodies[1-i], "12345678901234567") {
		t.Errorf("got %s\nwant %s", g, w)
	}
}

func TestWebhookRepeated(t *testing.T) {
	e := engine(t, func(string) int { return http.StatusOK })
	c := mirrors("http://lab-x-forge:3000")
	c.Engine = e.URL
	server, err := New(c, Secrets{Webhook: "s3cret"}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	server.repeatAfter = time.Millisecond
	front := httptest.NewServer(http.HandlerFunc(server.serveWebhook))
	defer front.Close()
	if status := push(t, front.URL, payload, header("s3cret", payload)); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	for n := range 4 {
		select {
		case <-e.arrived:
		case <-time.After(10 * time.Second):
			t.Fatalf("%d deliveries within 10s, want both payloads twice", n)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	bodies := slices.Clone(e.bodies)
	slices.Sort(bodies)
	if bodies[0] != bodies[1] || bodies[2] != bodies[3] || !slices.Contains(bodies, payload) {
		t.Errorf("%d deliveries, want both payloads twice: %q", len(bodies), bodies)
	}
}

func indent(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestWebhookHighestStatus(t *testing.T) {
	status := map[bool]int{}
	e := engine(t, func(body string) int { return status[body == payload] })
	c := mirrors("http://lab-x-forge:3000")
	c.Engine = e.URL
	_, url := start(t, c, Secrets{Webhook: "s"})
	for _, x := range []struct{ original, rewritten, want int }{{200, 200, 200}, {200, 400, 400}, {503, 202, 503}} {
		status = map[bool]int{true: x.original, false: x.rewritten}
		if got := push(t, url, payload, header("s", payload)); got != x.want {
			t.Errorf("%+v: status %d", x, got)
		}
	}
	e.Close()
	if got := push(t, url, payload, header("s", payload)); got != http.StatusBadGateway {
		t.Errorf("engine down: status %d", got)
	}
}

func TestWebhookRejected(t *testing.T) {
	e := engine(t, func(string) int { return http.StatusOK })
	c := mirrors("http://lab-x-forge:3000")
	c.Engine = e.URL
	_, url := start(t, c, Secrets{Webhook: "right"})
	half := header("right", payload)
	half.Set("X-Hub-Signature", "sha1=00")
	for name, x := range map[string]struct {
		body   string
		header http.Header
		want   int
	}{
		"wrong secret":  {payload, header("wrong", payload), 401},
		"no signature":  {payload, http.Header{}, 401},
		"other payload": {payload, header("right", "{}"), 401},
		"one wrong":     {payload, half, 401},
		"no JSON":       {"payload=x", header("right", "payload=x"), 400},
		"too large":     {strings.Repeat(" ", maxPayload+1), http.Header{}, 413},
	} {
		if got := push(t, url, x.body, x.header); got != x.want {
			t.Errorf("%s: status %d, want %d", name, got, x.want)
		}
	}
	if len(e.bodies) != 0 {
		t.Errorf("engine received %q", e.bodies)
	}
	const other = `{"repository": {"html_url": "http://lab-x-forge:3000/lab/estate"}}`
	if got := push(t, url, other, header("right", other)); got != http.StatusOK || !slices.Equal(e.bodies, []string{other}) {
		t.Errorf("repository without upstream: status %d, engine received %q", got, e.bodies)
	}
	res, err := http.Get(url + HealthPath)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("health: %v, %v", res, err)
	}
}

func TestUpstreamOf(t *testing.T) {
	m, err := parseMirror(Mirror{Upstream: "https://git.test:8443/Team/my repo.git", URL: "http://forge:3000/lab/gitops.git"})
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"http://forge:3000/lab/gitops":            "https://git.test:8443/Team/my%20repo",
		"https://other/lab/gitops.git":            "https://git.test:8443/Team/my%20repo.git",
		"http://forge:3000/lab/gitops/commit/b":   "https://git.test:8443/Team/my%20repo/commit/b",
		"http://forge:3000/lab/gitops.git/x":      "https://git.test:8443/Team/my%20repo.git/x",
		"ssh://git@forge:22/lab/gitops.git":       "ssh://git@git.test/Team/my%20repo.git",
		"git@forge:lab/gitops.git":                "git@git.test:Team/my repo.git",
		"http://forge:3000/lab/gitops-2":          "",
		"http://forge:3000/lab/gitops.github":     "",
		"http://forge:3000/api/v1/lab/gitops":     "",
		"http://forge:3000":                       "",
		"ftp://forge/lab/gitops":                  "",
		"/lab/gitops":                             "",
		"see http://forge:3000/lab/gitops":        "",
		"lab/gitops":                              "",
		"":                                        "",
		"note: http://forge:3000/lab/gitops/a b?": "",
	} {
		if got, ok := m.upstreamOf(address); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %v; want %q", address, got, ok, want)
		}
	}
}

func TestConfigInvalid(t *testing.T) {
	good := Mirror{Upstream: "https://github.test/acme/gitops", URL: "http://forge:3000/lab/gitops.git"}
	for name, x := range map[string]struct {
		mirrors []Mirror
		secrets Secrets
	}{
		"no secret":   {nil, Secrets{}},
		"duplicate":   {[]Mirror{good, {Upstream: "https://github.test:80/Acme/gitops.git", URL: good.URL}}, Secrets{Webhook: "s"}},
		"no upstream": {[]Mirror{{Upstream: "git@github.test:acme/gitops", URL: good.URL}}, Secrets{Webhook: "s"}},
		"no mirror":   {[]Mirror{{Upstream: good.Upstream, URL: "http://forge:3000/"}}, Secrets{Webhook: "s"}},
	} {
		if _, err := New(Config{Mirrors: x.mirrors}, x.secrets, quiet); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
