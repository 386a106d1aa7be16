package forge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
)

// scripted returns a forge with a fake docker that prints inspect, and the log of docker's arguments.
func scripted(t *testing.T, inspect string) (*Gitea, string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs sh")
	}
	dir := t.TempDir()
	asked, described := filepath.Join(dir, "asked"), filepath.Join(dir, "described")
	script := fmt.Sprintf("#!/bin/sh\necho \"$*\" >>%s\ncase \"$1 $2\" in\n'ps --all') echo id1 ;;\n'container inspect') cat %s ;;\n'volume inspect') echo someone ;;\nesac\n", asked, described)
	for file, text := range map[string]string{filepath.Join(dir, "docker"): script, described: inspect} {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return NewGitea("demo", docker.New(), Credentials{User: "lab", Password: "p"}, WithPatience(10*time.Second)), asked
}

// described returns docker's description of the lab's forge, published at a server's address.
func described(server *httptest.Server, status string) string {
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	return `[{"Id":"id1","Name":"/` + lab.ForgeName("demo") + `","State":{"Running":true,"Status":"` + status + `"},"Config":{"Labels":{"` + lab.LabelName + `":"demo"}},
"NetworkSettings":{"Ports":{"` + httpPort + `/tcp":[{"HostIp":"127.0.0.1","HostPort":"` + port + `"}]}}}]`
}

// A forge that accepts connections and never answers, as a paused one does, ends every call with an error that names the cure.
func TestSilence(t *testing.T) {
	release := make(chan struct{})
	var asked atomic.Pointer[func()]
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		(*asked.Load())()
		<-release
	}))
	defer s.Close()
	defer close(release)
	tree := Tree{FS: fstest.MapFS{"a": {Data: []byte("a")}}}
	m := Mirror{Name: "m", Branch: "main", Tree: tree}
	charts := []lab.Chart{{Name: "demo", Version: "1.0.0", Digest: "sha256:0"}}
	for status, cure := range map[string]string{"running": "docker restart lab-demo-forge, then lab up", "paused": "lab up unpauses it"} {
		g, _ := scripted(t, described(s, "running"))
		file := filepath.Join(filepath.SplitList(os.Getenv("PATH"))[0], "described")
		for name, call := range map[string]func(ctx context.Context) error{
			"push": func(ctx context.Context) error { _, err := g.Push(ctx, tree, "x"); return err },
			"pull": func(ctx context.Context) error {
				_, err := g.Pull(ctx, Tree{FS: tree.FS, Dir: t.TempDir()}, true)
				return err
			},
			"ahead":    func(ctx context.Context) error { _, err := g.Ahead(ctx, tree); return err },
			"diff":     func(ctx context.Context) error { _, err := g.Diff(ctx, tree); return err },
			"log":      func(ctx context.Context) error { _, err := g.Log(ctx, 1); return err },
			"mirror":   func(ctx context.Context) error { _, err := g.Mirror(ctx, m, "http://x", "s"); return err },
			"mirrored": func(ctx context.Context) error { _, err := g.Mirrored(ctx, m, "http://x", "s"); return err },
			"publish":  func(ctx context.Context) error { _, err := g.PublishCharts(ctx, charts); return err },
			"charts":   func(ctx context.Context) error { _, err := g.MissingCharts(ctx, charts); return err },
			"hook":     func(ctx context.Context) error { _, err := g.EnsureWebhook(ctx, "http://x", "s"); return err },
			"hooked":   func(ctx context.Context) error { _, err := g.HasWebhook(ctx, "http://x", "s"); return err },
		} {
			become := func(status string) {
				t.Helper()
				err := os.WriteFile(file+".new", []byte(described(s, status)), 0o644)
				if err := errors.Join(err, os.Rename(file+".new", file)); err != nil {
					t.Error(err)
				}
			}
			var err error
			for g.patience = 200 * time.Millisecond; g.patience < time.Minute; g.patience *= 2 {
				become("running")
				var reached atomic.Bool
				ask := func() { // the container is paused while the call waits
					if !reached.Swap(true) {
						become(status)
					}
				}
				asked.Store(&ask)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				err = call(ctx)
				cancel()
				if reached.Load() { // on a busy machine, a call may end before it reaches the server
					break
				}
			}
			var e *lab.Error
			if !errors.As(err, &e) || e.Code != "forge" || e.Message != "the lab's Git server did not answer for "+g.patience.String() || e.Cure != cure || !strings.HasPrefix(e.Details[0], "waited for: ") {
				t.Errorf("%s, then %s: %#v", name, status, err)
			}
		}
	}
}

// A forge that answers, but one call not, is waited for until the call's limit.
func TestLimit(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	g, _ := scripted(t, described(s, "running"))
	began := time.Now()
	err := g.call(t.Context(), "the moon", time.Second, func(ctx context.Context, _ State) error { <-ctx.Done(); return ctx.Err() })
	var e *lab.Error
	if !errors.As(err, &e) || e.Message != "the lab's Git server did not answer for 1s" || e.Details[0] != "waited for: the moon" || time.Since(began) < time.Second {
		t.Errorf("%#v after %s", err, time.Since(began))
	}
}

// All calls share one connection, as an unused one would stay open until the program ends.
func TestConnections(t *testing.T) {
	var opened atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("[]"))
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	g, _ := scripted(t, described(s, "running"))
	for range 5 {
		if _, err := g.HasWebhook(t.Context(), "http://x", "s"); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Log(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections for ten calls, want 1", n)
	}
}

// Foreign containers and volumes of the same name are neither used nor removed.
func TestForeignContainer(t *testing.T) {
	for _, label := range []string{"", `"` + lab.LabelName + `":"other"`} {
		g, asked := scripted(t, `[{"Id":"id1","Name":"/`+lab.ForgeName("demo")+`","State":{"Running":true,"Status":"running"},"Config":{"Labels":{`+label+`}}}]`)
		var e *lab.Error
		if s, err := g.Observe(t.Context()); !errors.As(err, &e) || e.Code != "not_ours" || s.Exists {
			t.Errorf("labels {%s}: %+v, %v", label, s, err)
		}
		if err := g.Remove(t.Context()); err == nil {
			t.Errorf("labels {%s}: no error from Remove", label)
		}
		text, err := os.ReadFile(asked)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "rm ") || strings.HasPrefix(line, "container rm") || strings.HasPrefix(line, "volume rm") {
				t.Errorf("labels {%s}: docker %s", label, line)
			}
		}
	}
	g, _ := scripted(t, "[]")
	var e *lab.Error
	if has, err := g.volume(t.Context()); has || !errors.As(err, &e) || e.Code != "not_ours" {
		t.Errorf("a volume: %t, %v", has, err)
	}
}

// A chart version with other content is missing and gets replaced.
func TestChartContent(t *testing.T) {
	published, requests := "aa", []string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Method)
		switch {
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusCreated)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		case published == "":
			w.WriteHeader(http.StatusNotFound)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `[{"id":1,"name":"podinfo-6.9.2.tgz","sha256":%q}]`, published)
		}
	}))
	defer s.Close()
	g, _ := scripted(t, described(s, "running"))
	archive := filepath.Join(t.TempDir(), "podinfo.tgz")
	if err := os.WriteFile(archive, []byte("chart"), 0o644); err != nil {
		t.Fatal(err)
	}
	charts := []lab.Chart{{Name: "podinfo", Version: "6.9.2", Digest: "sha256:aa", Archive: archive}}
	for digest, want := range map[string][]string{"aa": {"GET"}, "bb": {"GET", "DELETE", "POST"}, "": {"GET", "POST"}} {
		published = digest
		missing, err := g.MissingCharts(t.Context(), charts)
		if err != nil || (len(missing) == 0) != (digest == "aa") {
			t.Errorf("published %q: missing %q, %v", digest, missing, err)
		}
		requests = nil
		changed, err := g.PublishCharts(t.Context(), charts)
		if err != nil || !slices.Equal(changed, missing) || !slices.Equal(requests, want) {
			t.Errorf("published %q: changed %q by %q, %v", digest, changed, requests, err)
		}
	}
}
