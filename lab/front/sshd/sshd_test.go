package sshd

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

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
	deadline := time.Now().Add(time.Minute)
	if err := errors.Join(client.SetDeadline(deadline), server.SetDeadline(deadline)); err != nil {
		t.Fatal(err)
	}
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- Serve(server, key, run) }()
	t.Cleanup(func() {
		client.Close()
		<-done
	})
	return client
}

func dial(t *testing.T, run Handler, c ssh.ClientConfig) *ssh.Client {
	t.Helper()
	c.User, c.HostKeyCallback = "anyone", ssh.InsecureIgnoreHostKey()
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
	for name, c := range map[string]ssh.Config{
		"exchange": {KeyExchanges: []string{"diffie-hellman-group14-sha256"}}, "cipher": {Ciphers: []string{"aes128-ctr"}},
	} {
		_, _, _, err := ssh.NewClientConn(serve(t, echo), "host", &ssh.ClientConfig{Config: c, HostKeyCallback: ssh.InsecureIgnoreHostKey()})
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, input := range map[string]string{
		"HTTP": "GET / HTTP/1.1\r\n", "version": "SSH-1.5-x\r\n", "long": "SSH-2.0-" + strings.Repeat("x", 300) + "\r\n", "length": "SSH-2.0-x\r\n\xff\xff\xff\xff",
		"padding": "SSH-2.0-x\r\n\x00\x00\x00\x08\xffxxxxxxx", "empty": "SSH-2.0-x\r\n\x00\x00\x00\x08\x07xxxxxxx", "no exchange": "SSH-2.0-x\r\n\x00\x00\x00\x08\x06\x05xxxxxx",
	} {
		conn := serve(t, echo)
		if _, err := io.WriteString(conn, input); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); err != nil && !strings.Contains(err.Error(), "reset") || bytes.Contains(got, []byte("argument")) {
			t.Errorf("%s: %q, %v", name, got, err)
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

// FuzzServe serves arbitrary input, before and after the key exchange.
func FuzzServe(f *testing.F) {
	key, err := NewKey()
	if err != nil {
		f.Fatal(err)
	}
	kexInit := (&transport{}).offer()
	f.Add(append(append([]byte("SSH-2.0-x\r\n"), message{}.num(uint32(len(kexInit))+5)...), append(append([]byte{4}, kexInit...), 0, 0, 0, 0)...), byte(msgOpen), []byte{})
	f.Add([]byte("SSH-2.0-x\r\n"), byte(msgOpen), []byte(message{}.text("session").num(1).num(2).num(3)))
	f.Add([]byte{}, byte(msgRequest), []byte(message{}.num(0).text("exec").flag(true).text("x")))
	f.Add([]byte{}, byte(msgData), []byte(message{}.num(0).text("x")))
	f.Add([]byte{}, byte(msgWindow), []byte(message{}.num(0).num(^uint32(0))))
	f.Fuzz(func(t *testing.T, input []byte, number byte, body []byte) {
		run := func(context.Context, string, io.Reader, io.Writer, io.Writer) int { return 0 }
		if err := Serve(pipe{Reader: bytes.NewReader(input)}, key, run); err == nil && len(input) > 0 && input[0] != 'S' {
			t.Errorf("served %q", input)
		}
		s := newSession(&transport{conn: pipe{}}, run)
		_ = s.handle(msgOpen, &fields{rest: message{}.text("session").num(1).num(2).num(3)})
		_ = s.handle(number, &fields{rest: body})
		_ = s.handle(msgRequest, &fields{rest: message{}.num(0).text("exec").flag(true).text("x")})
		s.close()
		_, _, _ = choose(append([]byte{msgKexInit}, body...))
	})
}
