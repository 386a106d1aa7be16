package forge

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"homelab/lab"
)

// forbid makes the server reject updates of references below a name.
func (b *bench) forbid(ref string) {
	b.t.Helper()
	hook := filepath.Join(b.remote.URL, "hooks", "update")
	b.must(os.MkdirAll(filepath.Dir(hook), 0o755))
	b.must(os.WriteFile(hook, []byte("#!/bin/sh\ncase $1 in "+ref+"*) exit 1 ;; esac\n"), 0o755))
}

// A push that the server rejects has no effect.
func TestPushRejected(t *testing.T) {
	for _, ref := range []string{"refs/heads/main", "refs/lab/last"} {
		b := newBench(t)
		b.write(b.dir, map[string]string{"a": "1\n"})
		_, err := b.push()
		b.must(err)
		b.forbid(ref)
		b.write(b.dir, map[string]string{"a": "2\n"})
		var moved *movedError
		got, err := b.push()
		if err == nil || got.Pushed || errors.As(err, &moved) {
			t.Errorf("%s is refused: %+v, %v", ref, got, err)
		}
		if held, _ := b.held(); held["a"] != "1\n" {
			t.Errorf("%s rejected, but forge has %q", ref, held)
		}
	}
}

// A pull must be recorded in the forge, or the next push would be rejected.
func TestPullNotRecorded(t *testing.T) {
	for name, texts := range map[string]map[string]string{"a change": {"a": "9\n"}, "already ours": {"b": "2\n"}} {
		b, _ := newPullBench(t)
		b.write(b.dir, map[string]string{"a": "1\n", "b": "1\n"})
		_, err := b.push()
		b.must(err)
		b.theirs(texts)
		b.write(b.dir, map[string]string{"b": "2\n"})
		b.forbid("refs/lab/last")
		if _, err := b.pull(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Consecutive pushes do not mistake lab's own commits for others'.
func TestPushRepeatedly(t *testing.T) {
	b := newBench(t)
	for _, text := range []string{"1\n", "2\n", "3\n", "4\n"} {
		b.write(b.dir, map[string]string{"a": text})
		res, err := b.push()
		b.must(err)
		refs, err := b.remote.list(t.Context())
		b.must(err)
		if head, last := refs[heads+Branch], refs[lastRef]; head != res.Commit || last != head {
			t.Errorf("the branch is at %s, last at %s, want %s", head, last, res.Commit)
		}
		if at, err := b.remote.head(t.Context()); err != nil || at != res.Commit {
			t.Errorf("head %s, %v", at, err)
		}
	}
}

// An unreachable forge does not count as empty.
func TestUnreachableForge(t *testing.T) {
	b, _ := newPullBench(t)
	b.write(b.dir, map[string]string{"a": "1\n"})
	b.remote.URL = filepath.Join(t.TempDir(), "none.git")
	_, perr := b.push()
	_, lerr := b.pull()
	_, aerr := b.remote.Ahead(t.Context(), b.tree())
	_, derr := b.remote.Diff(t.Context(), b.tree())
	_, herr := b.remote.head(t.Context())
	for call, err := range map[string]error{"push": perr, "pull": lerr, "ahead": aerr, "diff": derr, "head": herr} {
		if err == nil {
			t.Errorf("%s: no error", call)
		}
	}
}

// A repository's own core.excludesFile overrides the user's.
func TestIgnoreInRepository(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	b := newBench(t)
	b.write(home, map[string]string{".gitconfig": "[core]\n\texcludesFile = ~/mine\n", "mine": "*.log\n"})
	b.git(b.dir, "init", "--quiet")
	b.write(b.dir, map[string]string{".git/config": "[core]\n\texcludesFile = theirs\n", "theirs": "*.key\n", "a.log": "a\n", "prod.key": "secret\n"})
	if got := strings.Join(b.names(), " "); got != "a.log theirs" {
		t.Errorf("a push would carry %s", got)
	}
}

// A folder pattern does not match a file, and everything below an ignored folder is ignored.
func TestIgnoresOneName(t *testing.T) {
	b := newBench(t)
	b.write(b.dir, map[string]string{".gitignore": "out/\n*.log\n", "d/.gitignore": "*.tmp\n"})
	for name, want := range map[string]bool{"out": false, "out/x": true, "d/out/x/y": true, "d/x.tmp": true, "x.tmp": false, "d/e.log": true, "d/e.log/f": true, "d/e": false} {
		if got, err := b.tree().ignores(t.Context(), name); err != nil || got != want {
			t.Errorf("%s is ignored: %t, %v", name, got, err)
		}
	}
}

// Without a running forge, calls return an error with a cure.
func TestStoppedForge(t *testing.T) {
	g, _ := scripted(t, `[{"Id":"id1","Name":"/`+lab.ForgeName("demo")+`","State":{"Running":false,"Status":"exited"},"Config":{"Labels":{"`+lab.LabelName+`":"demo"}}}]`)
	tree := newBench(t).tree()
	charts := []lab.Chart{{Name: "podinfo", Version: "6.9.2", Digest: "sha256:aa"}}
	for call, do := range map[string]func() error{
		"push":    func() error { _, err := g.Push(t.Context(), tree, "m"); return err },
		"pull":    func() error { _, err := g.Pull(t.Context(), tree, false); return err },
		"ahead":   func() error { _, err := g.Ahead(t.Context(), tree); return err },
		"diff":    func() error { _, err := g.Diff(t.Context(), tree); return err },
		"log":     func() error { _, err := g.Log(t.Context(), 1); return err },
		"publish": func() error { _, err := g.PublishCharts(t.Context(), charts); return err },
		"missing": func() error { _, err := g.MissingCharts(t.Context(), charts); return err },
		"webhook": func() error { _, err := g.EnsureWebhook(t.Context(), "http://x", "s"); return err },
	} {
		var e *lab.Error
		if err := do(); !errors.As(err, &e) || e.Code != "no_forge" || e.Exit != lab.ExitFailed || e.Cure != "start it: lab up" {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// An error about a rejected chart contains the forge's message, and charts are published under the lab's name.
func TestChartRejected(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case user != "lab" || password != "p":
			w.WriteHeader(http.StatusUnauthorized)
		case r.Method == http.MethodPost:
			http.Error(w, "quota exceeded", http.StatusInsufficientStorage)
		case strings.Contains(r.URL.Path, "/broken/"), strings.Contains(r.URL.Path, "/repos/"):
			w.WriteHeader(http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer s.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	g, _ := scripted(t, `[{"Id":"id1","Name":"/`+lab.ForgeName("demo")+`","State":{"Running":true,"Status":"running"},"Config":{"Labels":{"`+lab.LabelName+`":"demo"}},
"NetworkSettings":{"Ports":{"`+httpPort+`/tcp":[{"HostIp":"127.0.0.1","HostPort":"`+port+`"}]}}}]`)
	archive := filepath.Join(t.TempDir(), "podinfo.tgz")
	if err := os.WriteFile(archive, []byte("chart"), 0o644); err != nil {
		t.Fatal(err)
	}
	chart := lab.Chart{Name: "podinfo", Version: "6.9.2", Digest: "sha256:aa", Archive: archive}
	_, err := g.PublishCharts(t.Context(), []lab.Chart{chart})
	if err == nil || !strings.Contains(err.Error(), "chart podinfo 6.9.2: forge answers 507") || !strings.Contains(err.Error(), "quota exceeded") {
		t.Errorf("%v", err)
	}
	missing := chart
	missing.Archive += ".none"
	if _, err := g.PublishCharts(t.Context(), []lab.Chart{missing}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing archive: %v", err)
	}
	broken := chart
	broken.Name = "broken"
	if _, err := g.MissingCharts(t.Context(), []lab.Chart{broken}); err == nil || !strings.Contains(err.Error(), "chart broken 6.9.2") {
		t.Errorf("%v", err)
	}
	if _, err := g.PublishCharts(t.Context(), []lab.Chart{broken}); err == nil {
		t.Error("published with unknown state")
	}
}

// Any call to a forge whose start was interrupted returns the same error.
func TestUnpreparedForge(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer s.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	g, _ := scripted(t, `[{"Id":"id1","Name":"/`+lab.ForgeName("demo")+`","State":{"Running":true,"Status":"running"},"Config":{"Labels":{"`+lab.LabelName+`":"demo"}},
"NetworkSettings":{"Ports":{"`+httpPort+`/tcp":[{"HostIp":"127.0.0.1","HostPort":"`+port+`"}]}}}]`)
	tree := newBench(t).tree()
	charts := []lab.Chart{{Name: "podinfo", Version: "6.9.2", Digest: "sha256:aa"}}
	for call, do := range map[string]func() error{
		"pull":    func() error { _, err := g.Pull(t.Context(), tree, false); return err },
		"ahead":   func() error { _, err := g.Ahead(t.Context(), tree); return err },
		"diff":    func() error { _, err := g.Diff(t.Context(), tree); return err },
		"push":    func() error { _, err := g.Push(t.Context(), tree, "m"); return err },
		"log":     func() error { _, err := g.Log(t.Context(), 1); return err },
		"publish": func() error { _, err := g.PublishCharts(t.Context(), charts); return err },
		"missing": func() error { _, err := g.MissingCharts(t.Context(), charts); return err },
	} {
		if err := do(); !errors.Is(err, errUnprepared) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// The lock of a killed git is removed and the push retried; a lock that stays is an error.
func TestPushUnlocks(t *testing.T) {
	for _, ref := range []string{"refs/heads/main", "refs/lab/last"} {
		b := newBench(t)
		b.write(b.dir, map[string]string{"a": "1\n"})
		_, err := b.push()
		b.must(err)
		lock := filepath.Join(b.remote.URL, ref+".lock")
		b.must(os.WriteFile(lock, nil, 0o600))
		b.write(b.dir, map[string]string{"a": "2\n"})
		if _, err := b.push(); err == nil {
			t.Fatalf("%s was not locked", ref)
		}
		asked, stuck := 0, errors.New("git is still running")
		b.remote.Unlock = func(context.Context) (bool, error) { asked++; return false, stuck }
		if _, err := b.push(); !errors.Is(err, stuck) || asked != 1 {
			t.Errorf("%s: %v after %d attempts", ref, err, asked)
		}
		b.remote.Unlock = func(context.Context) (bool, error) { return true, os.Remove(lock) }
		if got, err := b.push(); err != nil || !got.Pushed {
			t.Errorf("%s: %+v, %v", ref, got, err)
		}
		if held, _ := b.held(); held["a"] != "2\n" {
			t.Errorf("%s: forge has %q", ref, held)
		}
	}
}
