package sshd

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// clientKey returns one of some keys; the server accepts the first.
func clientKey(t testing.TB, n byte) ssh.Signer {
	t.Helper()
	signer, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// serve starts a server for the duration of the test, and returns a client's connection to it.
func serve(t *testing.T, run Handler) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	s, err := New(clientKey(t, 1).PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(server, time.Minute, run) }()
	t.Cleanup(func() {
		client.Close()
		<-done
	})
	return client
}

func dial(t *testing.T, run Handler, c ssh.ClientConfig) *ssh.Client {
	t.Helper()
	c.User, c.HostKeyCallback, c.Auth = "anyone", ssh.InsecureIgnoreHostKey(), []ssh.AuthMethod{ssh.PublicKeys(clientKey(t, 1))}
	conn, channels, requests, err := ssh.NewClientConn(serve(t, run), "host", &c)
	if err != nil {
		t.Fatal(err)
	}
	client := ssh.NewClient(conn, channels, requests)
	t.Cleanup(func() { client.Close() })
	return client
}

func open(t *testing.T, c *ssh.Client) *ssh.Session {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// echo copies stdin to stdout, and writes its command to stderr.
func echo(_ context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) int {
	_, err := io.Copy(stdout, stdin)
	_, _ = fmt.Fprint(stderr, command, err)
	return 7
}

func TestServe(t *testing.T) {
	sent := make([]byte, 5<<20) // several windows of either side
	_, _ = rand.Read(sent)
	for name, c := range map[string]ssh.Config{
		"default": {}, "nistp256": {KeyExchanges: []string{"ecdh-sha2-nistp256"}}, "libssh": {KeyExchanges: []string{"curve25519-sha256@libssh.org"}},
		"rekey": {RekeyThreshold: 300 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			client := dial(t, echo, ssh.ClientConfig{Config: c})
			if ok, _, err := client.SendRequest("keepalive@openssh.com", true, nil); ok || err != nil {
				t.Errorf("keepalive: %t, %v", ok, err)
			}
			s := open(t, client)
			if err := s.Setenv("GIT_PROTOCOL", "version=2"); err == nil {
				t.Error("Setenv succeeded")
			}
			if _, err := client.NewSession(); err == nil {
				t.Error("second session opened")
			}
			var stdout, stderr bytes.Buffer
			s.Stdin, s.Stdout, s.Stderr = bytes.NewReader(sent), &stdout, &stderr
			var exit *ssh.ExitError
			if err := s.Run("do 'it'"); !errors.As(err, &exit) || exit.ExitStatus() != 7 {
				t.Errorf("exit: %v, want status 7", err)
			}
			if !bytes.Equal(stdout.Bytes(), sent) || stderr.String() != "do 'it'<nil>" {
				t.Errorf("received %d of %d bytes, stderr %q", stdout.Len(), len(sent), stderr.String())
			}
		})
	}
}

func TestServeUnsupported(t *testing.T) {
	client := dial(t, echo, ssh.ClientConfig{})
	if _, err := client.Dial("tcp", "127.0.0.1:1"); err == nil {
		t.Error("port forwarded")
	}
	if err := open(t, client).Shell(); err == nil {
		t.Error("shell started")
	}
}

// A command ends when its client is gone, whether it reads, writes or waits.
func TestServeClientGone(t *testing.T) {
	for name, wait := range map[string]func(context.Context, io.Reader, io.Writer){
		"reads": func(_ context.Context, r io.Reader, _ io.Writer) { _, _ = io.Copy(io.Discard, r) },
		"waits": func(ctx context.Context, _ io.Reader, _ io.Writer) { <-ctx.Done() },
		"writes": func(_ context.Context, _ io.Reader, w io.Writer) {
			for {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		},
	} {
		for _, action := range []string{"closes", "disconnects"} {
			t.Run(name+", client "+action, func(t *testing.T) {
				returned := make(chan struct{})
				client := dial(t, func(ctx context.Context, _ string, stdin io.Reader, stdout, _ io.Writer) int {
					defer close(returned)
					wait(ctx, stdin, stdout)
					return 0
				}, ssh.ClientConfig{})
				s := open(t, client)
				if _, err := s.StdinPipe(); err != nil {
					t.Fatal(err)
				}
				if err := s.Start("x"); err != nil {
					t.Fatal(err)
				}
				if action == "closes" {
					_ = s.Close()
				} else {
					_ = client.Close()
				}
				<-returned
			})
		}
	}
}

func TestServeRefused(t *testing.T) {
	for name, auth := range map[string][]ssh.AuthMethod{
		"no authentication": nil, "password": {ssh.Password("x")}, "another key": {ssh.PublicKeys(clientKey(t, 2))},
	} {
		_, _, _, err := ssh.NewClientConn(serve(t, echo), "host", &ssh.ClientConfig{Auth: auth, HostKeyCallback: ssh.InsecureIgnoreHostKey()})
		if err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, input := range map[string]string{
		"HTTP": "GET / HTTP/1.1\r\n\r\n", "long": "SSH-2.0-" + strings.Repeat("x", 300) + "\r\n", "length": "SSH-2.0-x\r\n\xff\xff\xff\xff",
		"padding": "SSH-2.0-x\r\n\x00\x00\x00\x08\xffxxxxxxx", "empty": "SSH-2.0-x\r\n\x00\x00\x00\x08\x07xxxxxxx", "no exchange": "SSH-2.0-x\r\n\x00\x00\x00\x08\x06\x05xxxxxx",
	} {
		s, err := New(clientKey(t, 1).PublicKey())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Serve(pipe{Reader: strings.NewReader(input)}, time.Minute, echo); err == nil {
			t.Errorf("%s: served", name)
		}
	}
}

// A client that has not authenticated gets the server to read, and thus to keep, only so much, in packets of any size.
func TestServeHandshakeBounded(t *testing.T) {
	for name, packet := range map[string]int{"small": 32, "largest": 200 << 10} {
		length := binary.BigEndian.AppendUint32(nil, uint32(packet))
		body := append(length, append([]byte{4, 2}, make([]byte, packet-2)...)...) // SSH_MSG_IGNORE
		sent := bytes.NewReader(append([]byte("SSH-2.0-x\r\n"), bytes.Repeat(body, 4<<20/packet)...))
		s, err := New(clientKey(t, 1).PublicKey())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Serve(pipe{Reader: sent}, time.Minute, echo); err == nil {
			t.Errorf("%s: served", name)
		}
		if read := sent.Size() - int64(sent.Len()); read > maxHandshake {
			t.Errorf("%s: %d bytes were read, want at most %d", name, read, maxHandshake)
		}
	}
}

// pipe is a connection with fixed input that discards its output.
type pipe struct {
	net.Conn
	io.Reader
}

func (p pipe) Read(b []byte) (int, error)  { return p.Reader.Read(b) }
func (p pipe) Write(b []byte) (int, error) { return len(b), nil }
func (p pipe) Close() error                { return nil }
func (p pipe) SetDeadline(time.Time) error { return nil }
func (p pipe) RemoteAddr() net.Addr        { return &net.TCPAddr{} }
func (p pipe) LocalAddr() net.Addr         { return &net.TCPAddr{} }

// FuzzServe serves arbitrary input.
func FuzzServe(f *testing.F) {
	s, err := New(clientKey(f, 1).PublicKey())
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", "GET / HTTP/1.1\r\n\r\n", "SSH-2.0-x\r\n", "SSH-2.0-x\r\n\x00\x00\x00\x08\x06\x14xxxxxx", "SSH-1.5-x\r\n\xff\xff\xff\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		run := func(context.Context, string, io.Reader, io.Writer, io.Writer) int {
			t.Error("ran a command")
			return 0
		}
		if err := s.Serve(pipe{Reader: bytes.NewReader(input)}, time.Minute, run); err == nil {
			t.Errorf("served %q", input)
		}
	})
}
