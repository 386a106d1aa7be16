package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// serveProxy handles requests to the proxy's port: tunnels to upstream hosts, and plain HTTP requests for them.
func (s *Server) serveProxy(w http.ResponseWriter, r *http.Request) {
	switch proxied := r.Method == http.MethodConnect || r.URL.IsAbs(); {
	case proxied && !s.authenticated(w, r):
	case r.Method == http.MethodConnect:
		s.connect(w, r)
	case proxied:
		s.serveGit(w, r)
	case r.URL.Path == HealthPath:
		serveHealth(w, r)
	default:
		http.Error(w, "lab: this is a proxy for Git repositories", http.StatusBadRequest)
	}
}

// connect opens a tunnel: to a cluster, or to a host with mounted repositories, whose requests the proxy answers itself.
func (s *Server) connect(w http.ResponseWriter, r *http.Request) {
	if address := s.clusters[strings.ToLower(r.Host)]; address != "" {
		s.passThrough(w, r, address)
		return
	}
	host := strings.ToLower((&url.URL{Host: r.Host}).Hostname())
	if !s.hosts[host] {
		http.Error(w, "lab: "+host+" is neither a host of mounted repositories nor a cluster", http.StatusBadGateway)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "lab: "+err.Error(), http.StatusInternalServerError)
		return
	}
	if _, err := conn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		_ = conn.Close()
		return
	}
	s.tunnels.add(tls.Server(tunnel{conn, buffered.Reader}, &tls.Config{
		Certificates: []tls.Certificate{s.certificate}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
	}))
}

// passThrough tunnels a client to an API server, without inspecting the traffic.
func (s *Server) passThrough(w http.ResponseWriter, r *http.Request, address string) {
	server, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(r.Context(), "tcp", address)
	if err != nil {
		http.Error(w, "lab: "+err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "lab: "+err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Time{}); err != nil { // watches are long-lived
		return
	}
	if _, err := conn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		return
	}
	done := make(chan struct{}, 2)
	go func() { relay(server, buffered.Reader, conn.SetReadDeadline); done <- struct{}{} }()
	go func() { relay(conn, server, server.SetReadDeadline); done <- struct{}{} }()
	<-done // either side
}

// tunnel is a connection whose first bytes may already be buffered.
type tunnel struct {
	net.Conn
	r *bufio.Reader
}

func (t tunnel) Read(p []byte) (int, error) { return t.r.Read(p) }

// tunnels is a listener that accepts the connections passed to add.
type tunnels struct {
	conns chan net.Conn
	done  chan struct{}
	close sync.Once
}

func newTunnels() *tunnels { return &tunnels{conns: make(chan net.Conn), done: make(chan struct{})} }

func (t *tunnels) add(c net.Conn) {
	select {
	case t.conns <- c:
	case <-t.done:
		_ = c.Close()
	}
}

// Accept implements net.Listener.
func (t *tunnels) Accept() (net.Conn, error) {
	select {
	case c := <-t.conns:
		return c, nil
	case <-t.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (t *tunnels) Close() error {
	t.close.Do(func() { close(t.done) })
	return nil
}

// Addr implements net.Listener.
func (t *tunnels) Addr() net.Addr { return &net.TCPAddr{} }

// logged logs each request on one line, except health checks.
func (s *Server) logged(message string, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == HealthPath && !r.URL.IsAbs() {
			next(w, r)
			return
		}
		start := time.Now()
		recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			s.log.LogAttrs(context.WithoutCancel(r.Context()), level(recorder.status), message, requestAttrs(r, recorder.status, time.Since(start))...)
		}()
		next(recorder, r)
	})
}

// statusRecorder records a response's status.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap supports http.ResponseController.
func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
