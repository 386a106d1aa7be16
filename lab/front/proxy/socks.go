package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Values of SOCKS 5 (RFC 1928).
const (
	socksVersion  = 5
	socksConnect  = 1
	socksIPv4     = 1
	socksName     = 3
	socksIPv6     = 4
	socksNoAccess = 2
)

// socksTimeout limits the SOCKS handshake.
const socksTimeout = 10 * time.Second

// sshServer is a SOCKS proxy that serves SSH in place of every host with mounted repositories. The SSH protocol does not include the server's host name.
type sshServer struct {
	*Server

	mu      sync.Mutex
	closed  bool
	l       net.Listener
	conns   map[net.Conn]bool
	serving sync.WaitGroup
}

// Serve, Shutdown and Close behave like those of http.Server.
func (s *sshServer) Serve(l net.Listener) error {
	s.mu.Lock()
	s.l, s.conns = l, map[net.Conn]bool{}
	if s.closed {
		_ = l.Close()
	}
	s.mu.Unlock()
	for {
		conn, err := l.Accept()
		s.mu.Lock()
		switch {
		case s.closed:
			s.mu.Unlock()
			if err == nil {
				_ = conn.Close()
			}
			return http.ErrServerClosed
		case err != nil:
			s.mu.Unlock()
			return err
		}
		s.conns[conn] = true
		s.serving.Go(func() {
			if err := s.serve(conn); err != nil {
				s.log.Warn("ssh", "from", conn.RemoteAddr().String(), "error", err)
			}
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
		})
		s.mu.Unlock()
	}
}

func (s *sshServer) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	var err error
	if s.l != nil {
		err = s.l.Close()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { s.serving.Wait(); close(done) }()
	select {
	case <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *sshServer) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close()
	}
	return nil
}

func (s *sshServer) serve(conn net.Conn) error {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(socksTimeout)); err != nil {
		return err
	}
	host, err := socksHost(conn)
	if err != nil {
		return err
	}
	status := byte(0)
	if !s.hosts[host] {
		status, err = socksNoAccess, errors.New("no repository of "+host+" is mounted")
	}
	if _, writeErr := conn.Write([]byte{socksVersion, status, 0, socksIPv4, 0, 0, 0, 0, 0, 0}); writeErr != nil || err != nil {
		return errors.Join(err, writeErr)
	}
	return s.ssh.Serve(conn, maxFetch, func(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) int {
		return s.sshCommand(ctx, host, command, stdin, stdout, stderr)
	})
}

// socksHost performs the SOCKS handshake, without authentication, and returns the destination's host. It ignores the port.
func socksHost(conn io.ReadWriter) (string, error) {
	read := func(n int) ([]byte, error) {
		b := make([]byte, n)
		_, err := io.ReadFull(conn, b)
		return b, err
	}
	header, err := read(2)
	if err != nil {
		return "", err
	}
	if header[0] != socksVersion {
		return "", fmt.Errorf("unsupported SOCKS version %d", header[0])
	}
	if _, err := read(int(header[1])); err != nil { // methods
		return "", err
	}
	if _, err := conn.Write([]byte{socksVersion, 0}); err != nil {
		return "", err
	}
	request, err := read(5) // including the address's first byte
	if err != nil {
		return "", err
	}
	if request[0] != socksVersion || request[1] != socksConnect {
		return "", fmt.Errorf("unsupported command %d of SOCKS %d", request[1], request[0])
	}
	length := map[byte]int{socksIPv4: net.IPv4len - 1, socksIPv6: net.IPv6len - 1, socksName: int(request[4])}[request[3]]
	const port = 2
	rest, err := read(length + port)
	if err != nil {
		return "", err
	}
	if request[3] == socksName {
		return strings.ToLower(string(rest[:length])), nil
	}
	if length == 0 {
		return "", fmt.Errorf("unsupported SOCKS address type %d", request[3])
	}
	return net.IP(append(request[4:], rest[:length]...)).String(), nil
}
