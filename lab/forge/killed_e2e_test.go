//go:build e2e

package forge_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sync/errgroup"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/forge"
)

// Killed runs leave a running docker command, and locks of a git that the server killed.
func TestKilledRuns(t *testing.T) {
	const name = "e2e-k"
	d := docker.New()
	creds := credentials()
	g, img := start(t, d, name, creds), spec(t, d)
	var starts errgroup.Group
	for range 2 {
		starts.Go(func() error {
			return forge.NewGitea(name, d, creds, forge.WithTokens(tokens{})).Start(t.Context(), img, 0, nil)
		})
	}
	if err := starts.Wait(); err != nil {
		t.Fatal(err)
	}
	push := func(text string) {
		t.Helper()
		if res, err := g.Push(t.Context(), forge.Tree{FS: fstest.MapFS{"a": {Data: []byte(text)}}}, text); err != nil || !res.Pushed {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	push("first")
	const refs = "/data/gitea/repositories/lab/estate.git/refs"
	for _, lock := range []string{"/heads/main.lock", "/lab/last.lock"} {
		if _, err := d.Exec(t.Context(), lab.ForgeName(name), nil, "touch", refs+lock); err != nil {
			t.Fatal(err)
		}
		push("after " + lock)
	}
	left, err := d.Exec(t.Context(), lab.ForgeName(name), nil, "find", refs, "-name", "*.lock")
	if err != nil || strings.TrimSpace(string(left)) != "" {
		t.Errorf("left: %s, %v", left, err)
	}
}
