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

// serve returns a client's connection to a server that runs a handler, until the end of the test.
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
	ended := make(chan error, 1)
	go func() { ended <- Serve(server, key, run) }()
	t.Cleanup(func() {
		client.Close()
		<-ended
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

// echo says on stdout what it hears, and on stderr what it is called.
func echo(_ context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) int {
	_, err := io.Copy(stdout, stdin)
	_, _ = fmt.Fprint(stderr, command, err)
	return 7
}

func TestServe(t *testing.T) {
	sent := make([]byte, 5<<20) // several windows, of either side
	_, _ = rand.Read(sent)
	for name, c := range map[string]ssh.Config{
		"by default": {}, "nistp256": {KeyExchanges: []string{"ecdh-sha2-nistp256"}}, "libssh": {KeyExchanges: []string{"curve25519-sha256@libssh.org"}},
		"new keys": {RekeyThreshold: 300 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			client := dial(t, echo, ssh.ClientConfig{Config: c})
			if ok, _, err := client.SendRequest("keepalive@openssh.com", true, nil); ok || err != nil {
				t.Errorf("keepalive: %t, %v", ok, err)
			}
			s := open(t, client)
			if err := s.Setenv("GIT_PROTOCOL", "version=2"); err == nil {
				t.Error("an environment is taken")
			}
			if _, err := client.NewSession(); err == nil {
				t.Error("two sessions")
			}
			var stdout, stderr bytes.Buffer
			s.Stdin, s.Stdout, s.Stderr = bytes.NewReader(sent), &stdout, &stderr
			var exit *ssh.ExitError
			if err := s.Run("do 'it'"); !errors.As(err, &exit) || exit.ExitStatus() != 7 {
				t.Errorf("ended with %v", err)
			}
			if !bytes.Equal(stdout.Bytes(), sent) || stderr.String() != "do 'it'<nil>" {
				t.Errorf("%d of %d bytes, stderr %q", stdout.Len(), len(sent), stderr.String())
			}
		})
	}
}

func TestServeOtherChannels(t *testing.T) {
	client := dial(t, echo, ssh.ClientConfig{})
	if _, err := client.Dial("tcp", "127.0.0.1:1"); err == nil {
		t.Error("a port is forwarded")
	}
	if err := open(t, client).Shell(); err == nil {
		t.Error("there is a shell")
	}
}

// A command that nobody listens to ends, whether it reads, writes or waits.
func TestServeClientGoes(t *testing.T) {
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
		for _, goes := range []string{"closes", "vanishes"} {
			t.Run(name+" and it "+goes, func(t *testing.T) {
				ended := make(chan struct{})
				client := dial(t, func(ctx context.Context, _ string, stdin io.Reader, stdout, _ io.Writer) int {
					defer close(ended)
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
				if goes == "closes" {
					_ = s.Close()
				} else {
					_ = client.Close()
				}
				<-ended
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
			t.Errorf("%s: agreed", name)
		}
	}
	for name, said := range map[string]string{
		"HTTP": "GET / HTTP/1.1\r\n", "version": "SSH-1.5-x\r\n", "long": "SSH-2.0-" + strings.Repeat("x", 300) + "\r\n", "length": "SSH-2.0-x\r\n\xff\xff\xff\xff",
		"padding": "SSH-2.0-x\r\n\x00\x00\x00\x08\xffxxxxxxx", "empty": "SSH-2.0-x\r\n\x00\x00\x00\x08\x07xxxxxxx", "no exchange": "SSH-2.0-x\r\n\x00\x00\x00\x08\x06\x05xxxxxx",
	} {
		conn := serve(t, echo)
		if _, err := io.WriteString(conn, said); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); err != nil && !strings.Contains(err.Error(), "reset") || bytes.Contains(got, []byte("argument")) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// pipe is a client that has said all that it will say.
type pipe struct {
	net.Conn
	io.Reader
}

func (p pipe) Read(b []byte) (int, error)  { return p.Reader.Read(b) }
func (p pipe) Write(b []byte) (int, error) { return len(b), nil }
func (p pipe) Close() error                { return nil }

// Whatever a client says, before there are keys and after.
func FuzzServe(f *testing.F) {
	key, err := NewKey()
	if err != nil {
		f.Fatal(err)
	}
	offer := (&transport{}).offer()
	f.Add(append(append([]byte("SSH-2.0-x\r\n"), message{}.num(uint32(len(offer))+5)...), append(append([]byte{4}, offer...), 0, 0, 0, 0)...), byte(msgOpen), []byte{})
	f.Add([]byte("SSH-2.0-x\r\n"), byte(msgOpen), []byte(message{}.text("session").num(1).num(2).num(3)))
	f.Add([]byte{}, byte(msgRequest), []byte(message{}.num(0).text("exec").flag(true).text("x")))
	f.Add([]byte{}, byte(msgData), []byte(message{}.num(0).text("x")))
	f.Add([]byte{}, byte(msgWindow), []byte(message{}.num(0).num(^uint32(0))))
	f.Fuzz(func(t *testing.T, said []byte, number byte, text []byte) {
		run := func(context.Context, string, io.Reader, io.Writer, io.Writer) int { return 0 }
		if err := Serve(pipe{Reader: bytes.NewReader(said)}, key, run); err == nil && len(said) > 0 && said[0] != 'S' {
			t.Errorf("served %q", said)
		}
		s := newSession(&transport{conn: pipe{}}, run)
		_ = s.handle(msgOpen, &fields{rest: message{}.text("session").num(1).num(2).num(3)})
		_ = s.handle(number, &fields{rest: text})
		_ = s.handle(msgRequest, &fields{rest: message{}.num(0).text("exec").flag(true).text("x")})
		s.end()
		_, _, _ = choose(append([]byte{msgKexInit}, text...))
	})
}
