package registry

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	memory "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"

	"homelab/lab"
)

// newRegistry returns a client of a registry in memory that wants a password.
func newRegistry(t *testing.T) Client {
	t.Helper()
	inner := memory.New(memory.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "lab" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="lab"`)
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return Client{Address: strings.TrimPrefix(s.URL, "http://"), User: "lab", Password: "secret"}
}

func TestClient(t *testing.T) {
	c := newRegistry(t)
	if err := c.Answers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err := c.List(t.Context()); err != nil || len(list) != 0 {
		t.Fatalf("%v, %v", list, err)
	}
	image, err := random.Image(1000, 2)
	must(t, err)
	dir := t.TempDir()
	archive := filepath.Join(dir, "image.tar")
	tag, err := name.NewTag("example.com/web:1")
	must(t, err)
	must(t, tarball.WriteToFile(archive, tag, image))
	digest, err := image.Digest()
	must(t, err)
	pushed, err := c.PushImage(t.Context(), Source{Archive: archive}, "team/web:1")
	if err != nil || pushed.Name() != "registry:5000/team/web:1" || pushed.Kind != KindImage || pushed.Size == 0 {
		t.Errorf("%+v, %v", pushed, err)
	}

	single, several := filepath.Join(dir, "single"), filepath.Join(dir, "several")
	one := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image})
	_, err = layout.Write(single, one)
	must(t, err)
	if pushed, err := c.PushImage(t.Context(), Source{Layout: single}, "single"); err != nil || pushed.Tag != "latest" || pushed.Digest != digest.String() {
		t.Errorf("%+v, %v", pushed, err)
	}
	other, err := random.Image(1000, 1)
	must(t, err)
	_, err = layout.Write(several, mutate.AppendManifests(one, mutate.IndexAddendum{Add: other}))
	must(t, err)
	if pushed, err := c.PushImage(t.Context(), Source{Layout: several}, "registry:5000/several:2"); err != nil || pushed.Name() != "registry:5000/several:2" || pushed.Size != 0 {
		t.Errorf("%+v, %v", pushed, err)
	}

	file, err := chartutil.Save(&chart.Chart{Metadata: &chart.Metadata{APIVersion: "v2", Name: "lamp", Version: "1.0.0+build"}}, dir)
	must(t, err)
	for folder, want := range map[string]string{"": "registry:5000/charts/lamp:1.0.0_build", "team/charts": "registry:5000/team/charts/lamp:1.0.0_build"} {
		if pushed, err := c.PushChart(t.Context(), file, folder); err != nil || pushed.Name() != want || pushed.Kind != KindChart {
			t.Errorf("%+v, %v", pushed, err)
		}
	}

	list, err := c.List(t.Context())
	must(t, err)
	if got, want := names(list), []string{"charts/lamp:1.0.0_build", "several:2", "single:latest", "team/charts/lamp:1.0.0_build", "team/web:1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if had, err := c.Remove(t.Context(), "registry:5000/team/web:1"); err != nil || had.Name() != "registry:5000/team/web:1" {
		t.Errorf("%+v, %v", had, err)
	}
	_, err = c.Remove(t.Context(), "team/web:1")
	fails(t, err, lab.ExitInvalid, "no_tag")
	if list, err = c.List(t.Context()); err != nil || len(list) != 4 {
		t.Errorf("%q, %v", names(list), err)
	}
}

func TestClientRefuses(t *testing.T) {
	c := newRegistry(t)
	for _, of := range []string{"Team/Web", "../web:1", "team/../web", "team/web:1:2", "", "web@sha256:" + strings.Repeat("0", 64), "web:" + strings.Repeat("x", 200)} {
		_, err := c.PushImage(t.Context(), Source{Archive: "none.tar"}, of)
		fails(t, err, lab.ExitInvalid, "usage")
	}
	file := filepath.Join(t.TempDir(), "not-1.0.0.tgz")
	must(t, os.WriteFile(file, []byte("no chart"), 0o600))
	_, err := c.PushChart(t.Context(), file, "")
	fails(t, err, lab.ExitInvalid, "usage")

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.List(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	c.Password = "other"
	_, err = c.List(t.Context())
	fails(t, err, lab.ExitFailed, "registry")
	if err := c.Answers(t.Context()); err == nil {
		t.Error("answers a stranger")
	}
}

func names(list []Content) []string {
	var names []string
	for _, c := range list {
		names = append(names, c.Repository+":"+c.Tag)
	}
	return names
}

func fails(t *testing.T, err error, exit lab.Exit, code string) {
	t.Helper()
	var e *lab.Error
	if !errors.As(err, &e) || e.Exit != exit || e.Code != code || e.Cure == "" {
		t.Errorf("%v, want code %s", err, code)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
