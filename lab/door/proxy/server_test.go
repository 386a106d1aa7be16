package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"homelab/lab/door/authority"
	"homelab/lab/door/entrance"
)

const domain = "demo.localhost"

// stand is a door before backends, which tell what reached them.
type stand struct {
	*Server
	secure, plain string // addresses
	roots         *x509.CertPool
}

func newStand(t *testing.T) *stand {
	t.Helper()
	a, err := authority.New(domain, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			w.Header().Set("Location", "http://"+r.Host+"/there")
			w.WriteHeader(http.StatusFound)
		case "/upgrade":
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_ = rw.Flush()
			line, _ := rw.ReadString('\n')
			fmt.Fprint(rw, "echo "+line)
			_ = rw.Flush()
		default:
			fmt.Fprintf(w, "%s %s %s host=%s for=%s fhost=%s proto=%s", r.Method, r.Proto, r.RequestURI, r.Host, r.Header.Get("X-Forwarded-For"), r.Header.Get("X-Forwarded-Host"), r.Header.Get("X-Forwarded-Proto"))
		}
	}))
	t.Cleanup(backend.Close)
	dial := func(ctx context.Context, c Cluster, ip string, _ int) (net.Conn, error) {
		if ip == "10.96.0.9" {
			return nil, fmt.Errorf("connection refused")
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", backend.Listener.Addr().String())
	}
	c := Config{Settings{Domain: domain}, Reach{HTTPS: 8443, HTTP: 8080, Clusters: []Cluster{{Name: "dev", Node: "demo-dev-control-plane"}}}}
	s := &stand{Server: New(c, a, dial, slog.New(slog.DiscardHandler)), roots: x509.NewCertPool()}
	s.roots.AddCert(a.Certificate)
	var cluster entrance.Cluster
	if err := json.Unmarshal([]byte(`{"Name": "dev", "Services": [
		{"metadata": {"namespace": "app", "name": "podinfo"}, "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.1", "ports": [{"port": 80, "nodePort": 30080}]}},
		{"metadata": {"namespace": "app", "name": "dead"}, "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.9", "ports": [{"port": 80}]}}],
		"Ingresses": [{"metadata": {"namespace": "app", "name": "i"}, "spec": {"rules": [{"host": "shop.example.com", "http": {"paths": [
			{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "podinfo", "port": {"number": 80}}}}]}},
			{"host": "part", "http": {"paths": [{"path": "/public", "pathType": "Prefix", "backend": {"service": {"name": "podinfo", "port": {"number": 80}}}}]}}]}}]}`), &cluster); err != nil {
		t.Fatal(err)
	}
	s.Show(entrance.Build(domain, []entrance.Cluster{cluster}), map[string]ClusterState{"dev": {Read: true}})
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	secure, plain := listen(), listen()
	s.secure, s.plain = secure.Addr().String(), plain.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	s.Listen(secure, true)
	s.Listen(plain, false)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// client trusts the lab's authority and finds every name at the door.
func (s *stand) client(t *testing.T) *http.Client {
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: s.roots}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			to := s.secure
			if strings.HasSuffix(address, ":8080") {
				to = s.plain
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", to)
		},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func TestRequests(t *testing.T) {
	s := newStand(t)
	client := s.client(t)
	for _, x := range []struct {
		url    string
		status int
		want   string // in the body or the Location
	}{
		{"https://podinfo.dev.demo.localhost:8443/a%2Fb?x=1;y=2", 200, "GET HTTP/1.1 /a%2Fb?x=1;y=2 host=podinfo.dev.demo.localhost:8443 for=127.0.0.1 fhost=podinfo.dev.demo.localhost:8443 proto=https"},
		{"https://podinfo.app.dev.demo.localhost:8443/", 200, "host=podinfo.app.dev.demo.localhost:8443"},
		{"https://shop.example.com.dev.demo.localhost:8443/", 200, "host=shop.example.com for=127.0.0.1 fhost=shop.example.com.dev.demo.localhost:8443"},
		{"https://shop.example.com.dev.demo.localhost:8443/away", 302, "https://shop.example.com.dev.demo.localhost:8443/there"},
		{"https://podinfo.dev.demo.localhost:8443/away", 302, "http://podinfo.dev.demo.localhost:8443/there"},
		{"https://part.dev.demo.localhost:8443/public/x", 200, "/public/x"},
		{"https://part.dev.demo.localhost:8443/private", 404, "no such path"},
		{"https://part.dev.demo.localhost:8443/public/../private", 400, "no . or .."},
		{"https://part.dev.demo.localhost:8443/public/%2e%2e/private", 400, "no . or .."},
		{"https://part.dev.demo.localhost:8443/public/..%2fprivate", 400, "no . or .."},
		{"https://part.dev.demo.localhost:8443/public/..%5cprivate", 400, "no . or .."},
		{"https://dead.dev.demo.localhost:8443/", 502, "Service app/dead:80 of cluster dev does not answer"},
		{"https://absent.dev.demo.localhost:8443/", 404, "nothing in the lab is called absent.dev.demo.localhost; https://demo.localhost:8443 lists what is"},
		{"https://demo.localhost:8443/", 200, `href="https://podinfo.dev.demo.localhost:8443/"`},
		{"https://demo.localhost:8443/routes.json", 200, `"read": true`},
		{"https://demo.localhost:8443/other", 404, "no such page"},
		{"http://podinfo.dev.demo.localhost:8080/a?b=c", 308, "https://podinfo.dev.demo.localhost:8443/a?b=c"},
		{"http://podinfo.dev.demo.localhost:8080//evil.example.com", 308, "https://podinfo.dev.demo.localhost:8443//evil.example.com"},
		{"http://absent.dev.demo.localhost:8080/", 404, "nothing in the lab is called"},
		{"http://example.com:8080/", 421, "the door of demo.localhost alone"},
		{"http://127.0.0.1:8080/", 421, "the door of demo.localhost alone"},
		{"http://127.0.0.1:8080/healthz", 200, "ok"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, x.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Errorf("%s: %v", x.url, err)
			continue
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if got := string(body) + resp.Header.Get("Location"); err != nil || resp.StatusCode != x.status || !strings.Contains(got, x.want) {
			t.Errorf("%s: %s %q, %v; want %d %q", x.url, resp.Status, got, err, x.status, x.want)
		}
		if strings.HasPrefix(x.url, "https") && resp.ProtoMajor != 2 {
			t.Errorf("%s: %s", x.url, resp.Proto)
		}
	}
}

// exchange sends raw text over TLS to a host and returns what comes back.
func (s *stand) exchange(t *testing.T, sni, text string) string {
	t.Helper()
	conn, err := tls.Dial("tcp", s.secure, &tls.Config{ServerName: sni, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return err.Error() // closed by the door before it had read everything
	}
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

func TestHostileRequests(t *testing.T) {
	s := newStand(t)
	const own = "podinfo.dev.demo.localhost"
	get := func(target, rest string) string {
		return "GET " + target + " HTTP/1.1\r\n" + rest + "Connection: close\r\n\r\n"
	}
	for name, x := range map[string]struct {
		sni, text string
		want      string // the beginning of the answer
		never     string
	}{
		"own":                    {own, get("/", "Host: "+own+"\r\n"), "HTTP/1.1 200", ""},
		"no SNI":                 {"", get("/", "Host: "+own+"\r\n"), "HTTP/1.1 200", ""},
		"foreign Host":           {own, get("/", "Host: evil.example.com\r\n"), "HTTP/1.1 421", "GET"},
		"foreign Host, no SNI":   {"", get("/", "Host: evil.example.com\r\n"), "HTTP/1.1 421", "GET"},
		"a suffix that is none":  {own, get("/", "Host: evildemo.localhost\r\n"), "HTTP/1.1 421", "GET"},
		"an address as Host":     {"", get("/", "Host: 127.0.0.1\r\n"), "HTTP/1.1 421", "GET"},
		"another name than SNI":  {own, get("/", "Host: shop.example.com.dev.demo.localhost\r\n"), "HTTP/1.1 421", "host="},
		"user in Host":           {own, get("/", "Host: x@"+own+"\r\n"), "HTTP/1.1 400", "host="},
		"empty Host":             {own, get("/", "Host: \r\n"), "HTTP/1.1 421", "host="},
		"no Host":                {own, get("/", ""), "HTTP/1.1 400", "host="},
		"two Hosts":              {own, get("/", "Host: "+own+"\r\nHost: evil.example.com\r\n"), "HTTP/1.1 400", "host="},
		"absolute form":          {own, get("https://"+own+"/x", "Host: evil.example.com\r\n"), "HTTP/1.1 200", "evil"},
		"foreign absolute form":  {own, get("https://evil.example.com/x", "Host: "+own+"\r\n"), "HTTP/1.1 421", "host="},
		"absolute form of files": {own, get("file:///etc/passwd", "Host: "+own+"\r\n"), "HTTP/1.1 4", "root"},
		"CONNECT":                {own, "CONNECT " + own + ":443 HTTP/1.1\r\nHost: " + own + ":443\r\nConnection: close\r\n\r\n", "HTTP/1.1 405", ""},
		"foreign CONNECT":        {own, "CONNECT 10.96.0.1:443 HTTP/1.1\r\nHost: 10.96.0.1:443\r\nConnection: close\r\n\r\n", "HTTP/1.1 421", ""},
		"asterisk":               {own, "OPTIONS * HTTP/1.1\r\nHost: " + own + "\r\nConnection: close\r\n\r\n", "HTTP/1.1 ", "OPTIONS"},
		"huge header":            {own, get("/", "Host: "+own+"\r\nX: "+strings.Repeat("a", headerLimit+8<<10)+"\r\n"), "", "host="},
		"both lengths":           {own, "POST / HTTP/1.1\r\nHost: " + own + "\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: " + own + "\r\n\r\n", "HTTP/1.1 ", "smuggled"},
		"two lengths":            {own, "POST / HTTP/1.1\r\nHost: " + own + "\r\nContent-Length: 0\r\nContent-Length: 40\r\nConnection: close\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n", "HTTP/1.1 400", "smuggled"},
		"obscure coding":         {own, "POST / HTTP/1.1\r\nHost: " + own + "\r\nTransfer-Encoding: xchunked\r\nConnection: close\r\n\r\n0\r\n\r\n", "HTTP/1.1 501", "host="},
		"space before colon":     {own, get("/", "Host: "+own+"\r\nTransfer-Encoding : chunked\r\n"), "HTTP/1.1 400", "host="},
		"forged forwarding":      {own, get("/", "Host: "+own+"\r\nX-Forwarded-Host: evil.example.com\r\nX-Forwarded-For: 6.6.6.6\r\n"), "HTTP/1.1 200", "evil"},
	} {
		got := s.exchange(t, x.sni, x.text)
		if !strings.HasPrefix(got, x.want) || x.never != "" && strings.Contains(got, x.never) {
			t.Errorf("%s: got %q, want %q", name, got, x.want)
		}
		if strings.Contains(got, "6.6.6.6") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A name of others gets the domain's certificate, which it cannot use.
func TestForeignServerName(t *testing.T) {
	s := newStand(t)
	for sni, want := range map[string]string{"podinfo.dev.demo.localhost": "podinfo.dev.demo.localhost", "evil.example.com": domain, "absent.dev.demo.localhost": "absent.dev.demo.localhost"} {
		conn, err := tls.Dial("tcp", s.secure, &tls.Config{ServerName: sni, InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		if names := conn.ConnectionState().PeerCertificates[0].DNSNames; len(names) != 1 || names[0] != want {
			t.Errorf("%s: %q", sni, names)
		}
		_ = conn.Close()
	}
	for i := range 3 * leavesLimit {
		if _, err := s.certificate(&tls.ClientHelloInfo{ServerName: fmt.Sprintf("n%d.demo.localhost", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.leaves) > leavesLimit {
		t.Errorf("%d certificates are kept", len(s.leaves))
	}
}

func TestUpgrade(t *testing.T) {
	s := newStand(t)
	const host = "podinfo.dev.demo.localhost"
	conn, err := tls.Dial("tcp", s.secure, &tls.Config{ServerName: host, RootCAs: s.roots})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /upgrade HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", host)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v, %v", resp, err)
	}
	fmt.Fprintln(conn, "hello")
	if line, err := r.ReadString('\n'); err != nil || line != "echo hello\n" {
		t.Errorf("got %q, %v", line, err)
	}
}

// A certificate is renewed before it ends, and after a new configuration.
func TestConfigure(t *testing.T) {
	s := newStand(t)
	hello := &tls.ClientHelloInfo{ServerName: "podinfo.dev.demo.localhost"}
	get := func() *tls.Certificate {
		c, err := s.certificate(hello)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := get()
	if get() != first {
		t.Error("issued twice")
	}
	first.Leaf.NotAfter = time.Now().Add(authority.LeafLifetime / 3)
	if get() == first {
		t.Error("not renewed")
	}
	was := s.transports["dev"]
	c, _ := s.state()
	s.Configure(c, s.authority)
	if s.transports["dev"] != was {
		t.Error("connections to an unchanged cluster are dropped")
	}
	c.Clusters = nil
	s.Configure(c, s.authority)
	resp, err := s.client(t).Get("https://podinfo.dev.demo.localhost:8443/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadGateway {
		t.Errorf("a cluster that is gone: %s", resp.Status)
	}
}

func TestChoose(t *testing.T) {
	r := entrance.Route{Backends: []entrance.Backend{{Service: "stable", Weight: 80}, {Service: "canary", Weight: 20}}}
	count := map[string]int{}
	for range 10000 {
		count[choose(r).backend.Service]++
	}
	if n := count["canary"]; n < 1700 || n > 2300 {
		t.Errorf("canary got %d of 10000", n)
	}
}
