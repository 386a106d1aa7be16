// Package sshd is as much of an SSH server as Git clients need: it lets in whoever comes, and runs one command per connection. It rests on the standard library
// alone, as the program that it is part of is compiled where there is no module but lab's own source.
package sshd

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
)

// A Handler runs a command and returns its exit status. ctx ends with the connection.
type Handler func(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) int

// NewKey returns a host key.
func NewKey() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return key, err
}

// Serve serves a connection until the client ends it, and closes it.
func Serve(conn net.Conn, key ed25519.PrivateKey, run Handler) error {
	defer conn.Close()
	t := &transport{conn: conn, r: bufio.NewReader(conn)}
	if err := t.greet(); err != nil {
		return err
	}
	if err := t.exchange(key, nil); err != nil {
		return fmt.Errorf("exchange of keys: %w", err)
	}
	s := newSession(t, run)
	defer s.end()
	for {
		payload, err := t.receive()
		switch {
		case err != nil:
		case payload[0] == msgKexInit: // anew
			err = t.exchange(key, payload)
		default:
			err = s.handle(payload[0], &fields{rest: payload[1:]})
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
