package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// serveProxy answers what comes to the proxy's port: a tunnel to an upstream host, or a request in plain HTTP for one.
func (s *Server) serveProxy(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		s.connect(w, r)
	case r.URL.IsAbs():
		s.serveGit(w, r)
	case r.URL.Path == HealthPath:
		serveHealth(w, r)
	default:
		http.Error(w, "lab: this is a proxy for Git repositories", http.StatusBadRequest)
	}
}

// connect opens a tunnel to a host that has mounted repositories, and is that host.
func (s *Server) connect(w http.ResponseWriter, r *http.Request) {
	if to := s.clusters[strings.ToLower(r.Host)]; to != "" {
		s.passThrough(w, r, to)
		return
	}
	host := strings.ToLower((&url.URL{Host: r.Host}).Hostname())
	certificate, ok := s.certificates[host]
	if !ok {
		http.Error(w, "lab: no repository of "+host+" is mounted, and no cluster is there", http.StatusBadGateway)
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
	s.tunnels.hand(tls.Server(tunnel{conn, buffered.Reader}, &tls.Config{
		Certificates: []tls.Certificate{*certificate}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
	}))
}

// passThrough connects a client and an API server, and looks at nothing of what they say.
func (s *Server) passThrough(w http.ResponseWriter, r *http.Request, to string) {
	server, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(r.Context(), "tcp", to)
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
	if err := conn.SetDeadline(time.Time{}); err != nil { // a watch may be long
		return
	}
	if _, err := conn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		return
	}
	ended := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(server, buffered.Reader); ended <- struct{}{} }()
	go func() { _, _ = io.Copy(conn, server); ended <- struct{}{} }()
	<-ended // whichever side is done, the other has nobody to talk to
}

// tunnel is a connection of which something may have been read already.
type tunnel struct {
	net.Conn
	r *bufio.Reader
}

func (t tunnel) Read(p []byte) (int, error) { return t.r.Read(p) }

// tunnels is a listener that accepts what is handed to it.
type tunnels struct {
	conns chan net.Conn
	done  chan struct{}
	close sync.Once
}

func newTunnels() *tunnels { return &tunnels{conns: make(chan net.Conn), done: make(chan struct{})} }

func (t *tunnels) hand(c net.Conn) {
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

// logged tells of every request in one line.
func (s *Server) logged(what string, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == HealthPath && !r.URL.IsAbs() {
			next(w, r)
			return
		}
		began := time.Now()
		recorder := &answer{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			s.log.LogAttrs(context.WithoutCancel(r.Context()), level(recorder.status), what, requestAttrs(r, recorder.status, time.Since(began))...)
		}()
		next(recorder, r)
	})
}

// answer remembers the status.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
