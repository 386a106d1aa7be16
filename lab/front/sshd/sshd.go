// Package sshd implements as much of an SSH server as Git clients need. It accepts any client and runs one command per connection. It uses only the standard
// library, as the program is compiled where no modules but lab's source are available.
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

// A Handler runs a command and returns its exit status. ctx is canceled when the client closes the session or the connection.
type Handler func(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) int

// NewKey returns a host key.
func NewKey() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return key, err
}

// Serve serves conn until the client disconnects, and closes it.
func Serve(conn net.Conn, key ed25519.PrivateKey, run Handler) error {
	defer conn.Close()
	t := &transport{conn: conn, r: bufio.NewReader(conn)}
	if err := t.greet(); err != nil {
		return err
	}
	if err := t.exchange(key, nil); err != nil {
		return fmt.Errorf("key exchange: %w", err)
	}
	s := newSession(t, run)
	defer s.close()
	for {
		payload, err := t.receive()
		switch {
		case err != nil:
		case payload[0] == msgKexInit: // rekey
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
