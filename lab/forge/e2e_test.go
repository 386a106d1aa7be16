//go:build e2e

package forge_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/forge"
	"homelab/lab/forge/forgetest"
	"homelab/lab/gate"
	"homelab/lab/supply/source"

	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// spec returns the forge's images. Gitea's is from the docker-archive LAB_E2E_GITEA, or from the engine; the gate's is built here.
func spec(t *testing.T, d *docker.Docker) forge.Spec {
	t.Helper()
	recipes, err := source.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	component, ok := recipes.Get("gitea")
	if !ok {
		t.Fatal("no recipe for gitea")
	}
	ref := component.Ref
	i := lab.Image{Name: "gitea", Ref: ref, Archive: os.Getenv("LAB_E2E_GITEA")}
	id, found, err := d.ImageID(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if !found && i.Archive == "" {
		t.Fatal("no Gitea image in the engine: run lab bundle build, or name an archive in LAB_E2E_GITEA")
	}
	i.Digest = id
	return forge.Spec{Image: i, Gate: gateImage(t)}
}

// gateImage builds an archive like that of its recipe.
func gateImage(t *testing.T) lab.Image {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "gate")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", file, "homelab/lab/gate/program")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("lab/gate:e2e")
	if err != nil {
		t.Fatal(err)
	}
	image, err := crane.Image(map[string][]byte{gate.Program[1:]: text})
	if err != nil {
		t.Fatal(err)
	}
	i := lab.Image{Name: gate.Component, Ref: tag.String(), Archive: filepath.Join(dir, "image.tar")}
	if err := tarball.WriteToFile(i.Archive, tag, image); err != nil {
		t.Fatal(err)
	}
	return i
}

// tokens keeps tokens in memory.
type tokens map[string]string

func (m tokens) ForgeToken(user string) string { return m[user] }

func (m tokens) SaveForgeToken(user, token string) error {
	if m[user] = token; token == "" {
		delete(m, user)
	}
	return nil
}

// credentials returns random ones.
func credentials() forge.Credentials {
	jwt := sha256.Sum256([]byte(rand.Text()))
	return forge.Credentials{
		User: "lab", Password: rand.Text(), Keys: forge.Keys{Secret: rand.Text(), Internal: rand.Text(), JWT: base64.RawURLEncoding.EncodeToString(jwt[:])},
	}
}

// start returns a forge on its own network and removes both at the end of the test.
func start(t *testing.T, d *docker.Docker, name string, creds forge.Credentials) *forge.Gitea {
	t.Helper()
	g := forge.NewGitea(name, d, creds, forge.WithTokens(tokens{}), forge.WithPatience(3*time.Second))
	if _, err := d.Output(t.Context(), nil, "network", "create", "--label", lab.LabelName+"="+name, lab.NetworkName(name)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		err := g.Remove(ctx)
		_, nerr := d.Output(ctx, nil, "network", "rm", lab.NetworkName(name))
		if err := errors.Join(err, nerr); err != nil {
			t.Error(err)
		}
	})
	return g
}

// chart packs a chart without templates.
func chart(t *testing.T, dir, version, text string) lab.Chart {
	t.Helper()
	file := filepath.Join(dir, "demo-"+version+".tgz")
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	yaml := "apiVersion: v2\nname: demo\nversion: " + version + "\ndescription: " + text + "\n"
	err := w.WriteHeader(&tar.Header{Name: "demo/Chart.yaml", Mode: 0o644, Size: int64(len(yaml))})
	_, werr := w.Write([]byte(yaml))
	if err := errors.Join(err, werr, w.Close(), z.Close(), os.WriteFile(file, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return lab.Chart{Name: "demo", Version: version, Digest: forgetest.Digest(t, file), Archive: file}
}

func TestGitea(t *testing.T) {
	const name = "e2e-g"
	d := docker.New()
	creds := credentials()
	g := start(t, d, name, creds)
	docker := func(t *testing.T, args ...string) {
		t.Helper()
		if _, err := d.Output(t.Context(), nil, args...); err != nil {
			t.Fatal(err)
		}
	}
	forgetest.Contract(t, forgetest.Subject{
		Forge: g, Spec: spec(t, d), Chart: chart,
		Stop:  func(t *testing.T) { docker(t, "stop", lab.ForgeName(name)) },
		Pause: func(t *testing.T) { docker(t, "pause", lab.ForgeName(name)) },
		Silence: func(t *testing.T) func() {
			docker(t, "kill", "--signal", "STOP", lab.ForgeName(name))
			return func() { docker(t, "kill", "--signal", "CONT", lab.ForgeName(name)) }
		},
		Unprepare: func(t *testing.T) {
			admin := []string{"exec", lab.ForgeName(name), "/app/gitea/gitea", "--work-path", "/data/gitea", "--config", "/data/gitea/conf/app.ini", "admin", "user"}
			docker(t, append(slices.Clone(admin), "create", "--admin", "--username", "spare", "--email", "spare@lab.invalid", "--random-password")...) // the last admin cannot be deleted
			for _, user := range []string{creds.User, "ann"} {
				docker(t, append(slices.Clone(admin), "delete", "--username", user, "--purge")...)
			}
		},
		Strangers: func(t *testing.T) { strangers(t, g, creds) },
		Other: func(t *testing.T, message string, files ...string) {
			s, err := g.Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			auth := &githttp.BasicAuth{Username: creds.User, Password: creds.Password}
			forgetest.Commit(t, s.HostRepoURL(creds.User), auth, message, files...)
		},
	})
}

// strangers does what forgetest.Subject.Strangers asks for.
func strangers(t *testing.T, g *forge.Gitea, creds forge.Credentials) {
	t.Helper()
	s, err := g.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	forgetest.Branch(t, s.HostRepoURL(creds.User), &githttp.BasicAuth{Username: creds.User, Password: creds.Password}, "try", "try it", "try.txt", "try\n")
	for _, call := range [][2]string{
		{"admin/users", `{"username": "ann", "email": "ann@example.org", "password": "` + rand.Text() + `", "must_change_password": false}`},
		{"admin/users/ann/repos", `{"name": "notes", "auto_init": true, "private": true}`},
		{"repos/" + creds.User + "/estate/pulls", `{"title": "Try it", "head": "try", "base": "main"}`},
		{"repos/" + creds.User + "/estate/issues", `{"title": "It breaks"}`},
		{"repos/" + creds.User + "/estate/releases", `{"name": "First", "tag_name": "first", "target_commitish": "main"}`},
		{"repos/" + creds.User + "/estate/wiki/new", `{"title": "Home", "content_base64": "aGk="}`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.HostURL+"/api/v1/"+call[0], strings.NewReader(call[1]))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(creds.User, creds.Password)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusCreated {
			t.Fatalf("%s: %s", call[0], resp.Status)
		}
	}
}

// A lab whose state folder was lost recovers its forge, including commits. The gate knew its runner by another password.
func TestLostPassword(t *testing.T) {
	const name = "e2e-p"
	d := docker.New()
	g := start(t, d, name, credentials())
	i := spec(t, d)
	i.Runner = forge.Guest{Password: "before", Hook: "http://runner.invalid:8080/", Secret: "before"}
	if err := g.Start(t.Context(), i, 0, nil); err != nil {
		t.Fatal(err)
	}
	tree := forge.Tree{FS: fstest.MapFS{"a": {Data: []byte("a")}}}
	pushed, err := g.Push(t.Context(), tree, "first")
	if err != nil {
		t.Fatal(err)
	}
	g = forge.NewGitea(name, d, credentials(), forge.WithTokens(tokens{}))
	i.Runner.Password, i.Runner.Secret = "after", "after"
	if err := g.Start(t.Context(), i, 0, nil); err != nil {
		t.Fatal(err)
	}
	seen, err := g.Observe(t.Context())
	if err != nil || seen.Revision != pushed.Commit || !seen.Guarded {
		t.Errorf("observed %+v, %v; want the commit %s", seen, err, pushed.Commit)
	}
	for password, want := range map[string]int{"before": http.StatusUnauthorized, "after": http.StatusOK} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, seen.HostURL+"/api/v1/repos/lab/estate/pulls", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(forge.Runner, password)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("the runner with the password of %s: %s, want %d", password, resp.Status, want)
		}
	}
}

// A branch protection rule is reported with a cure, and nothing is lost.
func TestForbiddenPush(t *testing.T) {
	d := docker.New()
	creds := credentials()
	g := start(t, d, "e2e-r", creds)
	if err := g.Start(t.Context(), spec(t, d), 0, nil); err != nil {
		t.Fatal(err)
	}
	tree := forge.Tree{FS: fstest.MapFS{"a": {Data: []byte("a")}}}
	first, err := g.Push(t.Context(), tree, "first")
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	archive := func(archived bool) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, s.HostURL+"/api/v1/repos/lab/estate", strings.NewReader(fmt.Sprintf(`{"archived": %t}`, archived)))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(creds.User, creds.Password)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
	}
	archive(true)
	tree.FS = fstest.MapFS{"a": {Data: []byte("b")}}
	var e *lab.Error
	if _, err := g.Push(t.Context(), tree, "second"); !errors.As(err, &e) || !strings.Contains(e.Message, "archived") || !strings.Contains(e.Cure, s.HostURL+"/lab/estate/settings") {
		t.Errorf("%+v", err)
	}
	if s, err = g.Observe(t.Context()); err != nil || s.Revision != first.Commit {
		t.Errorf("observed %+v, %v; want the commit %s", s, err, first.Commit)
	}
	archive(false)
	if _, err := g.Push(t.Context(), tree, "second"); err != nil {
		t.Error(err)
	}
}

// TestTimes logs the duration of each call.
func TestTimes(t *testing.T) {
	d := docker.New()
	g := start(t, d, "e2e-f", credentials())
	i := spec(t, d)
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
	lap("restarted")
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
