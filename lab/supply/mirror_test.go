package supply

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"homelab/lab"
)

// mirrors are broken registry mirrors; each returns its host.
var mirrors = map[string]func(*testing.T) string{
	"refuses": func(t *testing.T) string {
		s := httptest.NewServer(nil)
		s.Close()
		return host(s)
	},
	"accepts and stays silent": func(t *testing.T) string {
		return listen(t, func(conn net.Conn) {})
	},
	"answers byte by byte": func(t *testing.T) string {
		return listen(t, func(conn net.Conn) {
			if _, err := conn.Read(make([]byte, 4096)); err != nil {
				return
			}
			slow := time.NewTicker(100 * time.Millisecond)
			defer slow.Stop()
			for _, b := range []byte("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + strings.Repeat(" ", 1000)) {
				if _, err := conn.Write([]byte{b}); err != nil {
					return
				}
				<-slow.C
			}
		})
	},
	"answers 500": func(t *testing.T) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "out of order", http.StatusInternalServerError)
		}))
		t.Cleanup(s.Close)
		return host(s)
	},
	"has no address": func(t *testing.T) string { return "mirror.invalid:5000" },
}

// lastSeen is part of each mirror's error.
var lastSeen = map[string]string{
	"refuses":                  "connection refused",
	"accepts and stays silent": "the request was sent",
	"answers byte by byte":     "the answer began",
	"answers 500":              "500 Internal Server Error",
	"has no address":           "lookup mirror.invalid",
}

// listen accepts connections for serve.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			go serve(conn)
		}
	}()
	return l.Addr().String()
}

func TestBrokenMirror(t *testing.T) {
	for name, start := range mirrors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mirror := start(t)
			began := time.Now()
			_, err := Open(t.Context(), Options{Mode: ModeRegistry, Mirror: mirror, CacheDir: t.TempDir(), Patience: 3 * time.Second})
			var e *lab.Error
			if !errors.As(err, &e) || e.Code != "registry" || e.Exit != lab.ExitFailed || e.Cure == "" {
				t.Fatalf("got %v, want an error of the registry with a cure", err)
			}
			if !strings.Contains(err.Error(), mirror) || !strings.Contains(err.Error(), lastSeen[name]) {
				t.Errorf("%v does not name the host and %q", err, lastSeen[name])
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestInterruptMirrorRequest(t *testing.T) {
	for name, start := range mirrors {
		if name == "refuses" || name == "has no address" {
			continue // fails by itself
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mirror := start(t)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(200*time.Millisecond, cancel)
			began := time.Now()
			_, err := Open(ctx, Options{Mode: ModeRegistry, Mirror: mirror, CacheDir: t.TempDir(), Patience: time.Hour})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("ended after %s", took)
			}
		})
	}
}

// Mode auto keeps its decision while the mirror is down.
func TestBrokenMirrorKeepsDecision(t *testing.T) {
	g := makeGoods(t)
	server := publish(t, g)
	dir := t.TempDir()
	o := Options{CacheDir: dir, Mirror: host(server), Patience: time.Second}
	s := open(t, o)
	if _, err := s.Image(t.Context(), "node", nil); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(s.decisionFile())
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	var e *lab.Error
	if _, err := Open(t.Context(), o); !errors.As(err, &e) || e.Code != "registry" {
		t.Errorf("got %v", err)
	}
	if after, err := os.ReadFile(s.decisionFile()); err != nil || string(after) != string(before) {
		t.Errorf("the decision became %s, %v", after, err)
	}
}

// Queries use what was listed before and need no network.
func TestQueriesOffline(t *testing.T) {
	g := makeGoods(t)
	server := publish(t, g)
	s := open(t, Options{Mode: ModeRegistry, CacheDir: t.TempDir(), Mirror: host(server)})
	if _, err := s.Image(t.Context(), "node", nil); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if !s.Present("node", "", "") || s.Present("redis", "", "") || !s.HasChart("podinfo", "6.9.2") || s.Ref("redis") == "" || s.Key("redis") == "" {
		t.Error("listed item is unknown")
	}
	items, err := s.List(t.Context())
	if err != nil || len(items) != 7 || !items[0].Present || items[1].Present {
		t.Errorf("%+v, %v", items, err)
	}
}

// Without registries and build tools, a bundle can still be loaded, and mode auto uses it.
func TestLoadBundleOffline(t *testing.T) {
	g := makeGoods(t)
	o := Options{CacheDir: t.TempDir(), Mirror: "127.0.0.1:1"}
	s, err := newSupply(o)
	if err != nil {
		t.Fatal(err)
	}
	var labErr *lab.Error
	if err := s.auto(t.Context(), func() error { return errors.New("not on this machine") }); !errors.As(err, &labErr) || labErr.Code != "no_images" {
		t.Errorf("got %v", err)
	}
	if s, err = load(t, &o, save(t, g)); err != nil {
		t.Fatal(err)
	}
	contract(t, s, g, lab.OriginBundle)
	if s = open(t, o); s.Origin() != lab.OriginBundle {
		t.Errorf("then from %s", s.Origin())
	}
}
