package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Any pod may open connections. Beyond the limits, of an address and of all, they are closed at once, and others are served.
func TestConnectionsLimited(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has many loopback addresses")
	}
	l := startAll(t, mirrors("http://127.0.0.1:1"), Secrets{Webhook: "w"})
	// open opens connections from an address and returns how many of them the server keeps.
	open := func(to net.Listener, from string, n int) (kept []net.Conn) {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		for range n {
			conn, err := dialer.DialContext(t.Context(), "tcp", to.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if _, err := conn.Read(make([]byte, 1)); errors.Is(err, io.EOF) || err != nil && strings.Contains(err.Error(), "reset") {
				continue
			}
			kept = append(kept, conn)
		}
		return kept
	}
	first := open(l.SSH, "127.0.0.2", sshConnections/fromOneAddress+3)
	if len(first) != sshConnections/fromOneAddress {
		t.Errorf("one address has %d connections, want %d", len(first), sshConnections/fromOneAddress)
	}
	if kept := open(l.SSH, "127.0.0.3", 2); len(kept) != 2 {
		t.Errorf("another address has %d connections, want 2", len(kept))
	}
	if err := first[0].Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); len(open(l.SSH, "127.0.0.2", 1)) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("a closed connection still counts")
		}
	}
	total := len(open(l.Webhooks, "127.0.0.2", 1))
	for _, from := range []string{"127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6", "127.0.0.7"} {
		total += len(open(l.Webhooks, from, webhookConnections/fromOneAddress))
	}
	if total != webhookConnections {
		t.Errorf("%d connections in all, want %d", total, webhookConnections)
	}
}

// counting is an endless client that repeats a text, and counts what was read of it.
type counting struct {
	text string
	read atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], c.text[int(c.read.Load()+int64(n))%len(c.text):])
	}
	c.read.Add(int64(n))
	return n, nil
}

// slowForge is a forge that reads as much of a request as it is let.
type slowForge struct {
	client *counting
	most   int64 // what was read of the client's request, but not by the forge
	got    int64
}

func (f *slowForge) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(pktLine("# service=git-upload-pack\n") + flush + pktLine(wanted+" HEAD\x00agent=x\n") + flush))}, nil
	}
	buffer := make([]byte, 4<<10)
	for {
		n, err := r.Body.Read(buffer)
		f.got += int64(n)
		f.most = max(f.most, f.client.read.Load()-f.got)
		if err != nil {
			return nil, err
		}
	}
}

const wanted = "0123456789012345678901234567890123456789"

// The wants and haves of a client are not kept, however many there are: over SSH and over HTTP, the forge has all but some kilobytes of what was read.
func TestRequestsStreamed(t *testing.T) {
	const buffers = 128 << 10
	server, err := New(mirrors("http://forge.test"), Secrets{Webhook: "w"}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	for name, send := range map[string]func(client *counting) error{
		"ssh": func(client *counting) error {
			start := strings.NewReader(pktLine("want "+wanted+"\n") + flush)
			return server.uploadPack(t.Context(), "github.test", "git-upload-pack '/acme/gitops'", io.MultiReader(start, client), io.Discard)
		},
		"http": func(client *counting) error {
			w := httptest.NewRecorder()
			server.serveGit(w, httptest.NewRequest(http.MethodPost, "https://github.test/acme/gitops/git-upload-pack", client))
			if w.Code == http.StatusOK {
				return nil
			}
			return errors.New(w.Body.String())
		},
	} {
		client := &counting{text: pktLine("have " + wanted + "\n")}
		forge := &slowForge{client: client}
		server.client = &http.Client{Transport: forge}
		if err := send(client); err == nil {
			t.Errorf("%s: an endless request was served", name)
		}
		if forge.most > buffers {
			t.Errorf("%s: %d bytes were kept, want at most %d", name, forge.most, buffers)
		}
		if forge.got < maxWants/2 || client.read.Load() > maxWants+buffers {
			t.Errorf("%s: %d bytes were read, %d sent on; want %d", name, client.read.Load(), forge.got, maxWants)
		}
	}
}

// The payloads of webhooks are kept until their signature is known. An address has a quarter of them, and waits for its turn.
func TestPayloadsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := New(Config{Engine: "http://engine.test"}, Secrets{Webhook: "w"}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		held, free := net.Pipe()
		done := make(chan int, 1)
		post := func(from string, body io.Reader) int {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, WebhookPath, body)
			r.RemoteAddr = from + ":1"
			server.serveWebhook(w, r)
			return w.Code
		}
		go func() { done <- post("10.0.0.1", held) }()
		synctest.Wait()
		if got := post("10.0.0.2", strings.NewReader("{}")); got != http.StatusUnauthorized {
			t.Errorf("another address: status %d", got)
		}
		if got := post("10.0.0.1", strings.NewReader("{}")); got != http.StatusServiceUnavailable {
			t.Errorf("a second payload: status %d", got)
		}
		_ = free.Close()
		if got := <-done; got != http.StatusUnauthorized {
			t.Errorf("the first payload: status %d", got)
		}
		if got := post("10.0.0.1", strings.NewReader("{}")); got != http.StatusUnauthorized {
			t.Errorf("after the first payload: status %d", got)
		}
		if got := post("10.0.0.1", io.LimitReader(&counting{text: "x"}, maxPayload+1)); got != http.StatusRequestEntityTooLarge {
			t.Errorf("a large payload: status %d", got)
		}
		for _, from := range []string{"1", "2", "3", "4"} {
			if !server.payloads.take(from) {
				t.Errorf("%s has no payload", from)
			}
		}
		if server.payloads.take("5") {
			t.Error("a fifth payload")
		}
	})
}

// Nobody keeps a connection without sending anything.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := New(mirrors("http://forge.test"), Secrets{Webhook: "w"}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		s := server.server(http.NotFoundHandler())
		for name, limit := range map[string]time.Duration{"handshake and headers": s.ReadHeaderTimeout, "body": s.ReadTimeout, "answer": s.WriteTimeout, "idle": s.IdleTimeout} {
			if limit <= 0 || limit > maxFetch {
				t.Errorf("%s: %s", name, limit)
			}
		}
		for name, sent := range map[string]string{"silent": "", "half a handshake": "\x05\x01\x00", "no SSH": "\x05\x01\x00\x05\x01\x00\x03\x0bgithub.test\x00\x16"} {
			client, conn := net.Pipe()
			done := make(chan error, 1)
			began := time.Now()
			go func() { done <- (&sshServer{Server: server}).serve(conn) }()
			go func() {
				_, _ = client.Write([]byte(sent))
				_, _ = io.Copy(io.Discard, client)
			}()
			if err := <-done; err == nil || time.Since(began) > time.Minute {
				t.Errorf("%s: ended after %s: %v", name, time.Since(began), err)
			}
			_ = client.Close()
		}
		near, far := net.Pipe()
		began := time.Now()
		relay(io.Discard, bufio.NewReader(near), near.SetReadDeadline)
		if took := time.Since(began); took != idleTunnel {
			t.Errorf("a silent tunnel ended after %s", took)
		}
		_ = far.Close()
		_ = near.Close()
	})
	if (&limiter{}).wait(canceled(), "x") == nil {
		t.Error("a limit of 0 permits one")
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
