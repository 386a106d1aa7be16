//go:build e2e

package forge_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/forge"
)

// image is Gitea's: by LAB_E2E_GITEA, a docker-archive, or as the engine has it.
func image(t *testing.T, d *docker.Docker) lab.Image {
	t.Helper()
	const ref = "docker.gitea.com/gitea:1.26.0"
	i := lab.Image{Name: "gitea", Ref: ref, Archive: os.Getenv("LAB_E2E_GITEA")}
	id, found, err := d.ImageID(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if !found && i.Archive == "" {
		t.Fatal("no Gitea image in the engine: run lab bundle build, or name an archive in LAB_E2E_GITEA")
	}
	i.Digest = id
	return i
}

func TestTimes(t *testing.T) {
	d := docker.New()
	const name = "e2e-f"
	g := forge.NewGitea(name, d, forge.Credentials{User: "lab", Password: rand.Text()})
	i := image(t, d)
	if _, err := d.Output(t.Context(), nil, "network", "create", "--label", lab.LabelName+"="+name, lab.NetworkName(name)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := d.Output(context.Background(), nil, "network", "rm", lab.NetworkName(name))
		if err := errors.Join(err); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		if os.Getenv("LAB_E2E_KEEP") != "" {
			return
		}
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	began := time.Now()
	lap := func(what string) {
		t.Helper()
		t.Logf("%6.3f s  %s", time.Since(began).Seconds(), what)
		began = time.Now()
	}
	if err := g.Start(t.Context(), i, 0, func(s string) { t.Logf("%6.3f s  %s", time.Since(began).Seconds(), s) }); err != nil {
		var e *lab.Error
		if errors.As(err, &e) {
			t.Log(e.Details)
		}
		t.Fatal(err)
	}
	lap("started")
	if err := g.Start(t.Context(), i, 0, nil); err != nil {
		t.Fatal(err)
	}
	lap("started again")
	dir := t.TempDir()
	for _, f := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte(f), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tree := forge.Tree{FS: os.DirFS(dir), Dir: dir}
	for range 2 {
		r, err := g.Push(t.Context(), tree, "first")
		if err != nil {
			t.Fatal(err)
		}
		lap("pushed")
		t.Logf("%+v", r)
	}
	commits, err := g.Log(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	lap("log")
	t.Logf("%+v", commits)
	for range 2 {
		ch, err := g.EnsureWebhook(t.Context(), "http://10.0.0.1/api/webhook", "s")
		if err != nil {
			t.Fatal(err)
		}
		lap("webhook")
		t.Log(ch)
	}
	s, err := g.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lap("observed")
	t.Logf("%+v", s)
}
