package proxy

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Limits of the ports, which any pod of the hub can reach. What a connection keeps in memory is bounded: two buffers of net/http or 32 KiB for copying, and
// TLS records. For SSH it is what package sshd permits before authentication.
const (
	gitConnections     = 256
	sshConnections     = 64
	webhookConnections = 64
	fromOneAddress     = 4 // one address may have a quarter of the connections

	maxPayloads = 4       // webhooks in memory
	maxPayload  = 8 << 20 // bytes of one

	// idleTunnel is how long a tunnel to a cluster may be silent. Watches are pinged every 30 s.
	idleTunnel = 30 * time.Minute
)

// limiter counts what the addresses of clients have of something.
type limiter struct {
	all, each int

	mu    sync.Mutex
	had   map[string]int
	total int
	freed chan struct{} // closed, and replaced, when something is freed
}

func newLimiter(all int) *limiter {
	return &limiter{all: all, each: max(all/fromOneAddress, 1), had: map[string]int{}, freed: make(chan struct{})}
}

// take takes one for an address, if it may have it.
func (l *limiter) take(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= l.all || l.had[address] >= l.each {
		return false
	}
	l.total++
	l.had[address]++
	return true
}

// wait takes one as soon as the address may have it.
func (l *limiter) wait(ctx context.Context, address string) error {
	for {
		l.mu.Lock()
		freed := l.freed
		l.mu.Unlock()
		if l.take(address) {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *limiter) free(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.had[address]--; l.had[address] == 0 {
		delete(l.had, address)
	}
	close(l.freed)
	l.freed = make(chan struct{})
}

// limited is a listener that closes connections beyond its limit.
type limited struct {
	net.Listener
	*limiter
	log *slog.Logger
}

// Accept implements net.Listener.
func (l limited) Accept() (net.Conn, error) {
	for logged := false; ; {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := addressOf(conn.RemoteAddr().String())
		if l.take(from) {
			return &limitedConn{Conn: conn, free: sync.OnceFunc(func() { l.free(from) })}, nil
		}
		_ = conn.Close()
		if !logged {
			logged = true
			l.log.Warn("too many connections", "port", l.Addr().String(), "from", from)
		}
	}
}

// limitedConn is a connection that no longer counts when it is closed.
type limitedConn struct {
	net.Conn
	free func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}

// addressOf returns the host of a connection's address.
func addressOf(remote string) string {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		return host
	}
	return remote
}

// relay copies until the end or until nothing came for idleTunnel.
func relay(to io.Writer, from io.Reader, timeout func(time.Time) error) {
	buffer := make([]byte, 32<<10)
	for {
		if timeout(time.Now().Add(idleTunnel)) != nil {
			return
		}
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
