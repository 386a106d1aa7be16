package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"homelab/lab/door/authority"
	"homelab/lab/door/entrance"
)

const (
	// HealthPath is the path of health checks, over HTTP.
	HealthPath = "/healthz"
	// RoutesPath is the path of the table, in JSON, on the domain's own page.
	RoutesPath = "/routes.json"

	headerLimit = 64 << 10
	leavesLimit = 256 // certificates that are kept
	// maxListeners bounds goroutines that report the end of a listener.
	maxListeners = 64
	dialLimit    = 5 * time.Second
	drain        = 5 * time.Second
)

// Dialer connects to a port of a cluster: of its node, or of an IP address that its nodes route.
type Dialer func(ctx context.Context, c Cluster, ip string, port int) (net.Conn, error)

// Server is a door. Its state is replaced while it serves.
type Server struct {
	dial     Dialer
	log      *slog.Logger
	errorLog *log.Logger
	proxy    *httputil.ReverseProxy
	https    *http.Server
	http     *http.Server
	failed   chan error // one for each listener

	mu         sync.Mutex
	config     Config
	authority  *authority.Authority
	table      *entrance.Table
	clusters   map[string]ClusterState
	transports map[string]*transports
	leaves     map[string]*tls.Certificate
}

// ClusterState is what a door knows of a cluster.
type ClusterState struct {
	Read  bool   `json:"read"` // its objects have been read
	Error string `json:"error,omitempty"`
}

// Report is the document at RoutesPath.
type Report struct {
	*entrance.Table
	Clusters map[string]ClusterState `json:"clusters"`
}

// New returns a server of a configuration.
func New(c Config, a *authority.Authority, dial Dialer, l *slog.Logger) *Server {
	s := &Server{
		dial: dial, log: l, errorLog: slog.NewLogLogger(l.Handler(), slog.LevelWarn), table: entrance.Build(c.Domain, nil), clusters: map[string]ClusterState{},
		transports: map[string]*transports{}, failed: make(chan error, maxListeners),
	}
	server := func(h http.HandlerFunc) *http.Server {
		return &http.Server{
			Handler: h, ErrorLog: s.errorLog, MaxHeaderBytes: headerLimit, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
			TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certificate},
		}
	}
	s.https, s.http = server(s.ServeHTTP), server(s.Redirect)
	s.proxy = &httputil.ReverseProxy{
		Rewrite: rewrite, Transport: s, FlushInterval: -1, ErrorLog: s.errorLog, ModifyResponse: relocate, ErrorHandler: s.unanswered,
	}
	s.Configure(c, a)
	return s
}

// Configure replaces the configuration.
func (s *Server) Configure(c Config, a *authority.Authority) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := map[string]*transports{}
	for _, cl := range c.Clusters {
		t := s.transports[cl.Name]
		if t == nil || t.cluster != cl {
			t = s.transportsOf(cl)
		}
		kept[cl.Name] = t
	}
	for name, t := range s.transports {
		if kept[name] != t {
			t.close()
		}
	}
	s.config, s.authority, s.transports, s.leaves = c, a, kept, map[string]*tls.Certificate{}
}

// Show replaces what is served.
func (s *Server) Show(t *entrance.Table, clusters map[string]ClusterState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table, s.clusters = t, clusters
}

func (s *Server) state() (Config, *entrance.Table) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config, s.table
}

// transports are the connections to a cluster's backends.
type transports struct {
	cluster  Cluster
	web, h2c *http.Transport
}

func (t *transports) close() {
	t.web.CloseIdleConnections()
	t.h2c.CloseIdleConnections()
}

// nodeHost stands for the cluster's node in a URL.
const nodeHost = "node"

func (s *Server) transportsOf(c Cluster) *transports {
	create := func() *http.Transport {
		return &http.Transport{
			DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
				ctx, cancel := context.WithTimeout(ctx, dialLimit)
				defer cancel()
				host, text, err := net.SplitHostPort(address)
				if err != nil {
					return nil, err
				}
				port, err := strconv.Atoi(text)
				if err != nil {
					return nil, err
				}
				if host == nodeHost {
					host = ""
				}
				return s.dial(ctx, c, host, port)
			},
			TLSClientConfig:    &tls.Config{InsecureSkipVerify: true}, // inside of the lab, by names that no certificate has
			DisableCompression: true, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: dialLimit,
			ExpectContinueTimeout: time.Second, MaxResponseHeaderBytes: 1 << 20,
		}
	}
	t := &transports{cluster: c, web: create(), h2c: create()}
	t.h2c.Protocols = new(http.Protocols)
	t.h2c.Protocols.SetUnencryptedHTTP2(true)
	return t
}

type routeKey struct{}

// chosen is where a request goes.
type chosen struct {
	entrance.Route
	backend entrance.Backend
}

// choose picks a backend by weight.
func choose(r entrance.Route) chosen {
	total := 0
	for _, b := range r.Backends {
		total += b.Weight
	}
	n := rand.IntN(max(total, 1))
	for _, b := range r.Backends {
		if n -= b.Weight; n < 0 {
			return chosen{r, b}
		}
	}
	return chosen{r, r.Backends[0]}
}

func rewrite(r *httputil.ProxyRequest) {
	to := r.In.Context().Value(routeKey{}).(chosen)
	u := r.Out.URL
	u.Scheme, u.Host = "http", net.JoinHostPort(cmp.Or(to.backend.IP, nodeHost), strconv.Itoa(to.backend.Port))
	if to.backend.TLS {
		u.Scheme = "https"
	}
	u.RawQuery = r.In.URL.RawQuery // as it came
	r.SetXForwarded()
	r.Out.Host = r.In.Host
	if to.Strip != "" {
		r.Out.Host = stripped(r.In.Host, to.Strip)
	}
}

// stripped returns the name in a Host header without a suffix.
func stripped(header, suffix string) string {
	name, _ := entrance.ParseHost(header) // which was parsed before
	return strings.TrimSuffix(name, suffix)
}

// relocate has redirects to a host that only backends see lead back to the door.
func relocate(resp *http.Response) error {
	to, ok := resp.Request.Context().Value(routeKey{}).(chosen)
	if !ok || to.Strip == "" {
		return nil
	}
	if at, err := url.Parse(resp.Header.Get("Location")); err == nil && strings.EqualFold(at.Hostname(), resp.Request.Host) {
		at.Scheme, at.Host = "https", resp.Request.Header.Get("X-Forwarded-Host")
		resp.Header.Set("Location", at.String())
	}
	return nil
}

// RoundTrip sends a request to its backend.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	to := r.Context().Value(routeKey{}).(chosen)
	s.mu.Lock()
	t := s.transports[to.Cluster]
	s.mu.Unlock()
	switch {
	case t == nil:
		return nil, fmt.Errorf("cluster %s is not configured any more", to.Cluster)
	case to.backend.H2C && r.Header.Get("Upgrade") == "":
		return t.h2c.RoundTrip(r)
	}
	return t.web.RoundTrip(r)
}

func (s *Server) unanswered(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return
	}
	to := r.Context().Value(routeKey{}).(chosen)
	s.log.Warn("no answer", "cluster", to.Cluster, "service", to.backend.Service, "error", err)
	refuse(w, http.StatusBadGateway, "Service %s of cluster %s does not answer", to.backend.Service, to.Cluster)
}

func refuse(w http.ResponseWriter, status int, format string, args ...any) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, "lab: "+fmt.Sprintf(format, args...), status)
}

// ServeHTTP serves a request that came over TLS.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, table := s.state()
	host, ok := admitted(w, r, c.Domain)
	if !ok {
		return
	}
	if r.TLS != nil && r.TLS.ServerName != "" && !strings.EqualFold(strings.TrimSuffix(r.TLS.ServerName, "."), host) {
		refuse(w, http.StatusMisdirectedRequest, "the request is for %s on a connection to another host", host)
		return
	}
	if host == c.Domain {
		s.index(w, r)
		return
	}
	if !table.Knows(host) {
		refuse(w, http.StatusNotFound, "nothing in the lab is called %s; https://%s lists what is", host, hostPort(c.Domain, c.HTTPS, 443))
		return
	}
	route, ok := table.Find(host, r.URL.Path)
	if !ok {
		refuse(w, http.StatusNotFound, "%s has no such path", host)
		return
	}
	s.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), routeKey{}, choose(route))))
}

// admitted returns the host of a request that the door may look at, and answers others.
func admitted(w http.ResponseWriter, r *http.Request, domain string) (string, bool) {
	host, err := entrance.ParseHost(r.Host)
	switch {
	case err != nil || !entrance.Within(host, domain):
		refuse(w, http.StatusMisdirectedRequest, "this is the door of %s alone, and serves no other host", domain)
	case r.Method == http.MethodConnect:
		refuse(w, http.StatusMethodNotAllowed, "the door is not a forward proxy")
	case r.URL.Scheme != "" && r.URL.Scheme != "http" && r.URL.Scheme != "https", !strings.HasPrefix(r.URL.Path, "/") || climbs(r.URL.Path):
		refuse(w, http.StatusBadRequest, "a path begins with / and has no . or .. in it")
	default:
		return host, true
	}
	return "", false
}

// climbs reports whether a decoded path has elements that a backend might resolve to another path than the one that was looked up.
func climbs(path string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(path, func(c rune) bool { return c == '/' || c == '\\' }), func(e string) bool { return e == "." || e == ".." })
}

func hostPort(host string, port, usual int) string {
	if port == usual {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// Redirect leads clients from HTTP to HTTPS.
func (s *Server) Redirect(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.URL.Path == HealthPath {
		_, _ = w.Write([]byte("ok\n"))
		return
	}
	c, table := s.state()
	host, ok := admitted(w, r, c.Domain)
	switch {
	case !ok:
	case host != c.Domain && !table.Knows(host):
		refuse(w, http.StatusNotFound, "nothing in the lab is called %s", host)
	default:
		w.Header().Set("Location", "https://"+hostPort(host, c.HTTPS, 443)+r.URL.RequestURI())
		w.WriteHeader(http.StatusPermanentRedirect)
	}
}

// certificate returns the certificate for the name that a client asks for; for names of others, that of the domain, which they will not accept.
func (s *Server) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, err := entrance.ParseHost(hello.ServerName)
	if err != nil || !s.authority.Permits(name) {
		name = s.config.Domain
	}
	now := time.Now()
	if c := s.leaves[name]; c != nil && now.Add(authority.LeafLifetime/2).Before(c.Leaf.NotAfter) {
		return c, nil
	}
	c, err := s.authority.Issue(name, now)
	if err != nil {
		return nil, err
	}
	if len(s.leaves) >= leavesLimit {
		clear(s.leaves)
	}
	s.leaves[name] = c
	return c, nil
}

// Listen serves on a listener, with or without TLS, until Serve returns.
func (s *Server) Listen(l net.Listener, secure bool) {
	go func() {
		if secure {
			s.failed <- s.https.ServeTLS(l, "", "")
		} else {
			s.failed <- s.http.Serve(l)
		}
	}()
}

// Serve returns when ctx is done, or when serving fails. It closes all listeners.
func (s *Server) Serve(ctx context.Context) error {
	var err error
	select {
	case <-ctx.Done():
	case err = <-s.failed:
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	for _, server := range []*http.Server{s.https, s.http} {
		if server.Shutdown(within) != nil {
			err = errors.Join(err, server.Close())
		}
	}
	return err
}
