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

	"homelab/lab/front/sshd"
)

// What is read and written of SOCKS 5 (RFC 1928).
const (
	socksVersion  = 5
	socksConnect  = 1
	socksIPv4     = 1
	socksName     = 3
	socksIPv6     = 4
	socksNoAccess = 2
)

// socksWithin is how long a client may take to say where it wants to go.
const socksWithin = 10 * time.Second

// sshServer is a SOCKS proxy whose every destination is the SSH server of a host that has mounted repositories: a client of SSH does not say to the server itself
// which host it meant.
type sshServer struct {
	*Server

	mu      sync.Mutex
	closed  bool
	on      net.Listener
	conns   map[net.Conn]bool
	serving sync.WaitGroup
}

// Serve is like that of http.Server, and so are Shutdown and Close.
func (s *sshServer) Serve(on net.Listener) error {
	s.mu.Lock()
	s.on, s.conns = on, map[net.Conn]bool{}
	if s.closed {
		_ = on.Close()
	}
	s.mu.Unlock()
	for {
		conn, err := on.Accept()
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
	if s.on != nil {
		err = s.on.Close()
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() { s.serving.Wait(); close(ended) }()
	select {
	case <-ended:
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
	if err := conn.SetDeadline(time.Now().Add(socksWithin)); err != nil {
		return err
	}
	host, err := socksHost(conn)
	if err != nil {
		return err
	}
	status := byte(0)
	if _, ok := s.certificates[host]; !ok {
		status, err = socksNoAccess, errors.New("no repository of "+host+" is mounted")
	}
	if _, e := conn.Write([]byte{socksVersion, status, 0, socksIPv4, 0, 0, 0, 0, 0, 0}); e != nil || err != nil {
		return errors.Join(err, e)
	}
	if err := conn.SetDeadline(time.Now().Add(maxFetch)); err != nil {
		return err
	}
	return sshd.Serve(conn, s.hostKey, func(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) int {
		return s.sshCommand(ctx, host, command, stdin, stdout, stderr)
	})
}

// socksHost reads where a client wants to go, whatever the port. No client has to say who it is.
func socksHost(conn io.ReadWriter) (string, error) {
	read := func(n int) ([]byte, error) {
		b := make([]byte, n)
		_, err := io.ReadFull(conn, b)
		return b, err
	}
	head, err := read(2)
	if err != nil {
		return "", err
	}
	if head[0] != socksVersion {
		return "", fmt.Errorf("version %d of SOCKS", head[0])
	}
	if _, err := read(int(head[1])); err != nil { // methods
		return "", err
	}
	if _, err := conn.Write([]byte{socksVersion, 0}); err != nil {
		return "", err
	}
	request, err := read(5) // up to the address's first byte
	if err != nil {
		return "", err
	}
	if request[0] != socksVersion || request[1] != socksConnect {
		return "", fmt.Errorf("command %d of SOCKS %d", request[1], request[0])
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
		return "", fmt.Errorf("an address of type %d", request[3])
	}
	return net.IP(append(request[4:], rest[:length]...)).String(), nil
}
