package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"homelab/lab"
)

// TestContract runs the suite against go-containerregistry's registry and against distribution, if LAB_REGISTRY_BINARY
// names it.
func TestContract(t *testing.T) {
	t.Run("in process", func(t *testing.T) {
		contract(t, func(t *testing.T) string {
			s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
			t.Cleanup(s.Close)
			return strings.TrimPrefix(s.URL, "http://")
		})
	})
	t.Run("distribution", func(t *testing.T) {
		binary := os.Getenv("LAB_REGISTRY_BINARY")
		if binary == "" {
			t.Skip("LAB_REGISTRY_BINARY does not name distribution's registry program")
		}
		contract(t, func(t *testing.T) string { return distribution(t, binary) })
	})
}

// distribution starts distribution's registry on loopback until the end of the test.
func distribution(t *testing.T, binary string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %s}\n", dir, addr)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "serve", config)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		if res, err := http.Get("http://" + addr + "/v2/"); err == nil {
			res.Body.Close()
			return addr
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the registry does not answer: %s", out.String())
		case <-tick.C:
		}
	}
}

func contract(t *testing.T, start func(*testing.T) string) {
	t.Run("publish and pull", func(t *testing.T) {
		mirror := start(t)
		images := []lab.Image{makeImage(t, "redis", "public.ecr.aws/docker/library/redis:8"), makeImage(t, "node", "lab/node:v1.36.3-abc")}
		charts := []lab.Chart{makeChart(t, "podinfo", "6.9.2"), makeChart(t, "podinfo", "6.7.0+build.1")}
		if err := Publish(t.Context(), mirror, images[:1], charts[:1], nil); err != nil {
			t.Fatal(err)
		}
		if err := Publish(t.Context(), mirror, images[1:], charts[1:], nil); err != nil { // adds to the first image
			t.Fatal(err)
		}
		r, err := New(Options{Dir: t.TempDir(), Mirror: mirror})
		if err != nil {
			t.Fatal(err)
		}
		if a := r.Probe(t.Context()); !a.OK || a.Why != mirror+" answers" {
			t.Errorf("probe: %+v", a)
		}
		if err := Publish(t.Context(), mirror, images, charts, nil); err != nil { // publishing again changes nothing
			t.Fatal(err)
		}
		for _, want := range images {
			got, err := r.Image(t.Context(), want.Name, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got.Digest != want.Digest || got.Ref != want.Ref || got.Origin != lab.OriginRegistry || got.Size == 0 {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if _, err := archived(got); err != nil { // the archive holds the image under its name
				t.Error(err)
			}
		}
		for _, want := range charts {
			got, err := r.Chart(t.Context(), want.Name, want.Version, nil)
			if err != nil || got.Digest != want.Digest || got.Version != want.Version {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		}
		if got, err := r.Chart(t.Context(), "podinfo", "", nil); err != nil || got.Version != "6.9.2" {
			t.Errorf("the first chart is %+v, %v", got, err)
		}
		_, err = r.Image(t.Context(), "argocd", nil)
		wantCode(t, err, "no_image")
		_, err = r.Chart(t.Context(), "podinfo", "1.0.0", nil)
		wantCode(t, err, "no_chart")
	})

	t.Run("moved tag", func(t *testing.T) {
		mirror := start(t)
		want := makeImage(t, "redis", "example.test/redis:8")
		if err := Publish(t.Context(), mirror, []lab.Image{want}, nil, nil); err != nil {
			t.Fatal(err)
		}
		push(t, mirror+"/example.test/redis:8", makeImage(t, "redis", "example.test/redis:8"))
		r, err := New(Options{Dir: t.TempDir(), Mirror: mirror})
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Image(t.Context(), "redis", nil)
		if err != nil || got.Digest != want.Digest {
			t.Errorf("got %+v, %v", got, err)
		}
	})

	t.Run("missing pinned digest", func(t *testing.T) {
		mirror := start(t)
		push(t, mirror+"/example.test/redis:8", makeImage(t, "redis", "example.test/redis:8"))
		pin := ImagePin{Name: "redis", Ref: "example.test/redis:8", Digest: "sha256:" + strings.Repeat("0", 64)}
		r := plain(t, mirror, t.TempDir(), Pins{Images: []ImagePin{pin}})
		_, err := r.Image(t.Context(), "redis", nil)
		wantCode(t, err, "registry")
	})

	t.Run("digest pinned on first use", func(t *testing.T) {
		mirror, dir := start(t), t.TempDir()
		ref := mirror + "/docker.io/kindest/node:v1"
		pins := Pins{Images: []ImagePin{{Name: "node", Ref: "kindest/node:v1"}}}
		first := makeImage(t, "node", "kindest/node:v1")
		push(t, ref, first)
		got, err := plain(t, mirror, dir, pins).Image(t.Context(), "node", nil)
		if err != nil || got.Digest != first.Digest {
			t.Fatal(got, err)
		}
		if err := os.Remove(got.Archive); err != nil {
			t.Fatal(err)
		}
		if _, err := plain(t, mirror, dir, pins).Image(t.Context(), "node", nil); err != nil {
			t.Fatalf("the same image again: %v", err)
		}
		push(t, ref, makeImage(t, "node", "kindest/node:v1"))
		if err := os.Remove(got.Archive); err != nil {
			t.Fatal(err)
		}
		_, err = plain(t, mirror, dir, pins).Image(t.Context(), "node", nil)
		wantCode(t, err, "digest_changed")
	})

	t.Run("index", func(t *testing.T) {
		mirror := start(t)
		index := mutate.IndexMediaType(v1.ImageIndex(mustIndex(t)), "application/vnd.oci.image.index.v1+json")
		var wanted v1.Hash
		for _, arch := range []string{"amd64", "arm64"} {
			img := randomImage(t, arch)
			index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
			if arch == "arm64" {
				wanted, _ = img.ConfigName()
			}
		}
		tag, err := name.NewTag(mirror + "/example.test/a:1")
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.WriteIndex(tag, index); err != nil {
			t.Fatal(err)
		}
		digest, err := index.Digest()
		if err != nil {
			t.Fatal(err)
		}
		r := plain(t, mirror, t.TempDir(), Pins{Images: []ImagePin{{Name: "a", Ref: "example.test/a:1", Digest: digest.String()}}})
		r.platform = v1.Platform{OS: "linux", Architecture: "arm64"}
		got, err := r.Image(t.Context(), "a", nil)
		if err != nil || got.Digest != wanted.String() {
			t.Errorf("got %+v, %v, want %s", got, err, wanted)
		}
		r.platform = v1.Platform{OS: "linux", Architecture: "s390x"}
		_, err = r.Image(t.Context(), "a", nil)
		wantCode(t, err, "registry")
	})

	t.Run("a mirror's images against lab's pins", func(t *testing.T) {
		upstream, mirror := start(t), start(t)
		const ref = "example.test/a:1"
		index := v1.ImageIndex(mustIndex(t))
		for _, arch := range []string{"amd64", "arm64"} {
			platform := &v1.Platform{OS: "linux", Architecture: arch}
			index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: randomImage(t, arch), Descriptor: v1.Descriptor{Platform: platform}})
		}
		tag, err := name.NewTag(upstream + "/" + ref)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.WriteIndex(tag, index); err != nil {
			t.Fatal(err)
		}
		digest, err := index.Digest()
		if err != nil {
			t.Fatal(err)
		}
		pins := Pins{Images: []ImagePin{{Name: "a", Ref: ref, Digest: digest.String()}}}
		pulled, err := plain(t, upstream, t.TempDir(), pins).Image(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		other := makeImage(t, "a", ref)
		forged := other
		forged.Manifests = pulled.Manifests
		built := makeImage(t, "a", ref)
		built.Key = strings.Repeat("a", 64)
		for _, tc := range []struct {
			name  string
			image lab.Image
			code  string
			check Check
		}{
			{"pulled, whose layers are compressed again", pulled, "", CheckPin},
			{"another one", other, "digest_differs", CheckPin},
			{"another one with upstream's manifests", forged, "digest_differs", CheckPin},
			{"built, as its pins say and its labels do not", built, "registry", CheckClaim},
		} {
			if err := Publish(t.Context(), mirror, []lab.Image{tc.image}, nil, nil); err != nil {
				t.Fatal(err)
			}
			r := plain(t, mirror, t.TempDir(), pins)
			got, err := r.Image(t.Context(), "a", nil)
			if tc.code != "" {
				wantCode(t, err, tc.code)
			} else if err != nil || got.Digest != pulled.Digest {
				t.Errorf("%s: %+v, %v", tc.name, got, err)
			}
			held, err := r.Pins(t.Context())
			if err != nil || r.Expected(held.Images[0]).Check != tc.check {
				t.Errorf("%s: %+v, %v", tc.name, r.Expected(held.Images[0]), err)
			}
		}
	})

	t.Run("interrupted pull", func(t *testing.T) {
		mirror := start(t)
		if err := Publish(t.Context(), mirror, []lab.Image{makeImage(t, "redis", "example.test/redis:8")}, nil, nil); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		r, err := New(Options{Dir: dir, Mirror: mirror})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := r.Pins(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := r.Image(ctx, "redis", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("left %v", left)
		}
	})
}

// plain returns a registry whose mirror has no pins.
func plain(t *testing.T, mirror, dir string, pins Pins) *Registry {
	t.Helper()
	r, err := newRegistry(Options{Dir: dir, Mirror: mirror, Platform: "linux/amd64"}, pins)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustIndex(t *testing.T) v1.ImageIndex {
	t.Helper()
	index, err := random.Index(16, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func randomImage(t *testing.T, arch string) v1.Image {
	t.Helper()
	img, err := random.Image(4096, 2)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	return img
}

// makeImage writes a docker-archive with random layers.
func makeImage(t *testing.T, component, ref string) lab.Image {
	t.Helper()
	img := randomImage(t, "amd64")
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := tarball.WriteToFile(file, tag, img); err != nil {
		t.Fatal(err)
	}
	digest, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return lab.Image{Name: component, Ref: ref, Digest: digest.String(), Archive: file, Size: info.Size(), Origin: lab.OriginSource}
}

// push pushes an image that the pins do not list.
func push(t *testing.T, ref string, image lab.Image) {
	t.Helper()
	img, err := archived(image)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, img); err != nil {
		t.Fatal(err)
	}
}

func makeChart(t *testing.T, chart, version string) lab.Chart {
	t.Helper()
	return makeChartOf(t, chart, version, "")
}

// makeChartOf makes a chart that installs a version of an application.
func makeChartOf(t *testing.T, chart, version, app string) lab.Chart {
	t.Helper()
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	text := "apiVersion: v2\nname: " + chart + "\nversion: " + version + "\nappVersion: " + app + "\n"
	if err := tw.WriteHeader(&tar.Header{Name: chart + "/Chart.yaml", Mode: 0o644, Size: int64(len(text))}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(tw, text); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tw.Close(), zw.Close()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "chart.tgz")
	if err := os.WriteFile(file, buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return lab.Chart{Name: chart, Version: version, Digest: sum(buf.Bytes()), Archive: file, Origin: lab.OriginSource}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var e *lab.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("got %v, want an error with code %s", err, code)
	}
}
