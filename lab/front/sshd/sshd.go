// Package sshd serves one command per SSH connection to the one client that has a given key.
package sshd

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// Limits of a connection until its client has authenticated. A handshake takes some kilobytes.
const (
	maxHandshake  = 64 << 10 // bytes from the client
	handshakeTime = 10 * time.Second
)

// A Handler runs a command and returns its exit status. ctx is canceled when the client closes the session or the connection.
type Handler func(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) int

// Server accepts the clients with one key.
type Server struct{ config *ssh.ServerConfig }

// New returns a server with a new host key.
func New(client ssh.PublicKey) (*Server, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, err
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), client.Marshal()) {
			return nil, errors.New("not the engine's key")
		}
		return nil, nil
	}}
	config.AddHostKey(signer)
	return &Server{config}, nil
}

// Serve serves conn until the client disconnects or within has passed, and closes it.
func (s *Server) Serve(conn net.Conn, within time.Duration, run Handler) error {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	greeting := &greeting{Conn: conn}
	client, channels, requests, err := ssh.NewServerConn(greeting, s.config)
	if err != nil {
		return err
	}
	greeting.over.Store(true)
	var running sync.WaitGroup
	defer running.Wait()
	defer client.Close()
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	go ssh.DiscardRequests(requests)
	opened := false
	for c := range channels {
		if opened || c.ChannelType() != "session" {
			if err := c.Reject(ssh.Prohibited, "one session per connection"); err != nil {
				return err
			}
			continue
		}
		channel, requests, err := c.Accept()
		if err != nil {
			return err
		}
		opened = true
		running.Go(func() { session(channel, requests, run) })
	}
	return nil
}

// session runs one command. Other requests, such as for an environment or a terminal, are refused.
func session(channel ssh.Channel, requests <-chan *ssh.Request, run Handler) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	started := false
	for r := range requests { // until the client closes the session
		var command struct{ Text string }
		ok := r.Type == "exec" && !started && ssh.Unmarshal(r.Payload, &command) == nil
		if r.WantReply && r.Reply(ok, nil) != nil || !ok {
			continue
		}
		started = true
		running.Go(func() {
			status := run(ctx, command.Text, channel, channel, channel.Stderr())
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)})) // fails if the client is gone
			_ = channel.Close()
		})
	}
}

// greeting is a connection whose client may send maxHandshake bytes until it has authenticated.
type greeting struct {
	net.Conn
	read int
	over atomic.Bool
}

func (g *greeting) Read(p []byte) (int, error) {
	if g.over.Load() {
		return g.Conn.Read(p)
	}
	if g.read >= maxHandshake {
		return 0, fmt.Errorf("more than %d bytes before authentication", maxHandshake)
	}
	n, err := g.Conn.Read(p[:min(len(p), maxHandshake-g.read)])
	g.read += n
	return n, err
}
