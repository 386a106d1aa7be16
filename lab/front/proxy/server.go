package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/crypto/ssh"

	"homelab/lab/front/sshd"
)

// HealthPath is the path of health checks.
const HealthPath = "/healthz"

// Server is the proxy for Git clients and the receiver of the forge's webhooks.
type Server struct {
	config      Config
	secrets     Secrets
	mirrors     map[string]mirror // by key of upstream
	hosts       map[string]bool   // of upstream
	certificate tls.Certificate   // for hosts
	clusters    map[string]string // host:port in manifests -> host:port of the API server
	tunnels     *tunnels
	ssh         *sshd.Server
	payloads    *limiter // of webhooks
	client      *http.Client
	repeatAfter time.Duration // of webhooks
	log         *slog.Logger
	errorLog    *log.Logger
}

// New returns a server that is not listening yet.
func New(c Config, s Secrets, l *slog.Logger) (*Server, error) {
	if s.Webhook == "" {
		return nil, errors.New("no secret for webhooks")
	}
	srv := &Server{
		config: c, secrets: s, mirrors: map[string]mirror{}, hosts: map[string]bool{}, clusters: map[string]string{}, tunnels: newTunnels(), payloads: newLimiter(maxPayloads), repeatAfter: repeatAfter,
		log: l, errorLog: slog.NewLogLogger(l.Handler(), slog.LevelWarn),
	}
	srv.client = &http.Client{
		Transport: &http.Transport{ // no Proxy: this is the proxy
			DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			ResponseHeaderTimeout: time.Minute, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 8, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for _, m := range c.Mirrors {
		parsed, err := parseMirror(m)
		if err != nil {
			return nil, err
		}
		if _, ok := srv.mirrors[parsed.key]; ok {
			return nil, fmt.Errorf("%s has two mirrors", m.Upstream)
		}
		srv.mirrors[parsed.key] = parsed
		srv.hosts[parsed.host] = true
	}
	for _, cl := range c.Clusters {
		from, err := hostPort(cl.Server)
		if err != nil {
			return nil, err
		}
		if srv.clusters[from] != "" {
			return nil, fmt.Errorf("%s names two clusters", cl.Server)
		}
		if srv.clusters[from], err = hostPort(cl.URL); err != nil {
			return nil, err
		}
	}
	key, err := ClientKey(s.Webhook)
	if err != nil {
		return nil, err
	}
	client, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	if srv.ssh, err = sshd.New(client); err != nil {
		return nil, err
	}
	srv.certificate, err = certificate(srv.hosts)
	return srv, err
}

// Listeners are the listeners of a server's ports.
type Listeners struct{ Git, SSH, Webhooks net.Listener }

// Listen listens on the configured addresses.
func (s *Server) Listen(ctx context.Context) (Listeners, error) {
	var l Listeners
	var lc net.ListenConfig
	for _, x := range []struct {
		l       *net.Listener
		address string
	}{{&l.Git, s.config.Proxy}, {&l.SSH, s.config.SSH}, {&l.Webhooks, s.config.Webhooks}} {
		var err error
		if *x.l, err = lc.Listen(ctx, "tcp", x.address); err != nil {
			for _, opened := range []net.Listener{l.Git, l.SSH, l.Webhooks} {
				if opened != nil {
					err = errors.Join(err, opened.Close())
				}
			}
			return Listeners{}, err
		}
	}
	return l, nil
}

// drain is how long requests may continue during shutdown.
const drain = 20 * time.Second

// Serve serves until ctx is done, and then waits for running requests. It closes the listeners.
func (s *Server) Serve(ctx context.Context, l Listeners) error {
	hooks := http.NewServeMux()
	hooks.Handle("POST "+WebhookPath, s.logged("webhook", s.serveWebhook))
	hooks.HandleFunc("GET "+HealthPath, serveHealth)
	bounded := func(l net.Listener, connections int) net.Listener { return limited{l, newLimiter(connections), s.log} }
	serving := []struct {
		l      net.Listener
		server interface {
			Serve(l net.Listener) error
			Shutdown(ctx context.Context) error
			Close() error
		}
	}{
		{bounded(l.Git, gitConnections), s.server(s.logged("proxy", s.serveProxy))},
		{bounded(l.SSH, sshConnections), &sshServer{Server: s}},
		{s.tunnels, s.server(s.logged("git", s.serveGit))},
		{bounded(l.Webhooks, webhookConnections), s.server(hooks)},
	}
	done := make(chan error, len(serving))
	for _, x := range serving {
		go func() { done <- x.server.Serve(x.l) }()
	}
	var err error
	running := len(serving)
	select {
	case <-ctx.Done():
	case err = <-done:
		running--
	}
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	for _, x := range serving {
		err = errors.Join(err, x.server.Shutdown(shutdown), x.server.Close())
	}
	for range running {
		if e := <-done; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

func (s *Server) server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ErrorLog: s.errorLog, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 2 * time.Minute, WriteTimeout: 15 * time.Minute, IdleTimeout: time.Minute, // clones may be long
	}
}

func serveHealth(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }

func level(status int) slog.Level {
	if status >= http.StatusBadRequest {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

func requestAttrs(r *http.Request, status int, took time.Duration) []slog.Attr {
	return []slog.Attr{
		slog.String("method", r.Method), slog.String("host", r.Host), slog.String("path", r.URL.Path), slog.Int("status", status),
		slog.String("took", took.Round(time.Millisecond).String()), slog.String("from", r.RemoteAddr),
	}
}
