package supply

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	fakeregistry "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"homelab/lab"
	"homelab/lab/supply/archive"
	"homelab/lab/supply/chart"
	"homelab/lab/supply/registry"
	"homelab/lab/supply/source"
	"homelab/lab/supply/store"
)

// goods are images and charts, as built.
type goods struct {
	images []lab.Image
	charts []lab.Chart
}

func makeGoods(t testing.TB) goods {
	t.Helper()
	return goods{
		images: []lab.Image{makeImage(t, "node", "lab/node:v1.36.3"), makeImage(t, "redis", "example.com/redis:8")},
		charts: []lab.Chart{makeChart(t, "podinfo", "6.9.2"), makeChart(t, "podinfo", "6.7.0")},
	}
}

func makeImage(t testing.TB, component, ref string) lab.Image {
	t.Helper()
	return makeImageOf(t, component, ref, "")
}

// makeImageOf makes an image that was built from the recipe with a key.
func makeImageOf(t testing.TB, component, ref, key string) lab.Image {
	t.Helper()
	img, err := random.Image(256, 1)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture = "linux", "amd64"
	cfg.Config.Labels = map[string]string{lab.LabelInputs: key}
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(file, tag, img); err != nil {
		t.Fatal(err)
	}
	digest, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	return lab.Image{Name: component, Ref: ref, Digest: digest.String(), Archive: file, Size: fileSize(file), Key: key}
}

func makeChart(t testing.TB, chart, version string) lab.Chart {
	t.Helper()
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	text := "apiVersion: v2\nname: " + chart + "\nversion: " + version + "\n"
	err := tw.WriteHeader(&tar.Header{Name: chart + "/Chart.yaml", Mode: 0o644, Size: int64(len(text))})
	_, writeErr := io.WriteString(tw, text)
	if err := errors.Join(err, writeErr, tw.Close(), zw.Close()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), chart+"-"+version+".tgz")
	if err := os.WriteFile(file, buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(buf.Bytes())
	return lab.Chart{Name: chart, Version: version, Digest: "sha256:" + hex.EncodeToString(sum[:]), Archive: file}
}

func save(t testing.TB, g goods) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lab.tar.zst")
	if err := archive.Save(t.Context(), file, archive.Goods{Made: archive.Made{By: "v0.0.0-test"}, Images: g.images, Charts: g.charts}, nil); err != nil {
		t.Fatal(err)
	}
	return file
}

// publish starts a registry with the goods on loopback.
func publish(t *testing.T, g goods) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(fakeregistry.New(fakeregistry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	if err := registry.Publish(t.Context(), host(server), g.images, g.charts, nil); err != nil {
		t.Fatal(err)
	}
	return server
}

func host(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }

// load loads a bundle that a person accepts.
func load(t testing.TB, o *Options, file string) (*Supply, error) {
	t.Helper()
	if err := accept(t, o, file); err != nil {
		return nil, err
	}
	return Load(t.Context(), *o, file, nil)
}

func accept(t testing.TB, o *Options, file string) error {
	t.Helper()
	if o.StateDir == "" {
		o.StateDir = t.TempDir()
	}
	_, err := Accept(t.Context(), *o, file, Terms{Any: true}, nil)
	return err
}

// open opens a supply in its own folder.
func open(t testing.TB, o Options) *Supply {
	t.Helper()
	if file, ok := o.Mode.Bundle(); ok {
		if err := accept(t, &o, file); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// contract is the suite for all origins.
func contract(t *testing.T, s *Supply, want goods, origin lab.Origin) {
	t.Helper()
	for _, img := range want.images {
		if s.Ref(img.Name) != img.Ref {
			t.Errorf("%s has ref %s before Image, want %s", img.Name, s.Ref(img.Name), img.Ref)
		}
		key := s.Key(img.Name)
		got, err := s.Image(t.Context(), img.Name, nil)
		if err != nil {
			t.Fatalf("%s: %v", img.Name, err)
		}
		if got.Name != img.Name || got.Ref != img.Ref || got.Digest != img.Digest || got.Origin != origin || got.Size != fileSize(got.Archive) {
			t.Errorf("got %+v, want %+v from %s", got, img, origin)
		}
		read, err := tarball.ImageFromPath(got.Archive, nil)
		if err != nil {
			t.Fatalf("%s: %v", img.Name, err)
		}
		if digest, err := read.ConfigName(); err != nil || digest.String() != img.Digest {
			t.Errorf("%s: the archive contains %s, %v", img.Name, digest, err)
		}
		if !s.Present(img.Name, "", "") {
			t.Errorf("%s is missing after Image", img.Name)
		}
		if key == "" || s.Key(img.Name) != key {
			t.Errorf("%s: key %q became %q", img.Name, key, s.Key(img.Name))
		}
	}
	for _, c := range want.charts {
		got, err := s.Chart(t.Context(), c.Name, c.Version, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		data, err := os.ReadFile(got.Archive)
		if err != nil || got.Name != c.Name || got.Version != c.Version || got.Digest != c.Digest || got.Origin != origin || len(data) == 0 {
			t.Errorf("got %+v (%v), want %+v from %s", got, err, c, origin)
		}
		if !s.Present("", c.Name, c.Version) || !s.HasChart(c.Name, c.Version) || !s.HasChart(c.Name, "") {
			t.Errorf("chart %s %s is missing after Chart", c.Name, c.Version)
		}
	}
	if s.HasChart("podinfo", "0.0.1") || s.Present("nothing", "", "") {
		t.Error("unknown item is present")
	}
	var labErr *lab.Error
	if _, err := s.Chart(t.Context(), "podinfo", "0.0.1", nil); !errors.As(err, &labErr) || labErr.Cure == "" {
		t.Errorf("unknown chart: %v, want an error with a cure", err)
	}
}

func TestContractBundle(t *testing.T) {
	g := makeGoods(t)
	s := open(t, Options{Mode: Mode("bundle=" + save(t, g)), CacheDir: t.TempDir()})
	if s.Present("node", "", "") {
		t.Error("present before it was unpacked")
	}
	contract(t, s, g, lab.OriginBundle)
	if s.Builds() {
		t.Error("a bundle needs no compiler")
	}
}

func TestContractRegistry(t *testing.T) {
	g := makeGoods(t)
	s := open(t, Options{Mode: ModeRegistry, Mirror: host(publish(t, g)), CacheDir: t.TempDir()})
	if s.Present("node", "", "") {
		t.Error("present before it was pulled")
	}
	contract(t, s, g, lab.OriginRegistry)
}

// Sources cannot be built here; the store is filled instead.
func TestContractSource(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Mode: ModeSource, CacheDir: dir})
	if !s.Builds() {
		t.Error("nothing to build in an empty store")
	}
	g := fillSource(t, dir, "node", "redis")
	contract(t, s, g, lab.OriginSource)
}

func fillSource(t *testing.T, dir string, components ...string) goods {
	t.Helper()
	st := store.Open(filepath.Join(dir, "store"))
	recipes, err := source.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	var g goods
	put := func(name, key string, meta store.Meta, from, to string) {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		_, err = st.Make(t.Context(), name, key, nil, func(_ context.Context, dir string) (store.Meta, error) {
			return meta, os.WriteFile(filepath.Join(dir, to), data, 0o644)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range components {
		c, _ := recipes.Get(name)
		ref, err := recipes.Ref(c)
		if err != nil {
			t.Fatal(err)
		}
		key, err := recipes.Key(name)
		if err != nil {
			t.Fatal(err)
		}
		img := makeImageOf(t, name, ref, key)
		put(name, key, store.Meta{Ref: ref, Digest: img.Digest}, img.Archive, "image.tar")
		g.images = append(g.images, img)
	}
	r, err := chart.Find("podinfo", "6.9.2")
	if err != nil {
		t.Fatal(err)
	}
	c := makeChart(t, r.Name, r.Version)
	name, key := chartEntry(r), chartKey(r)
	put(name, key, store.Meta{Ref: "x.tgz", Digest: c.Digest}, c.Archive, "x.tgz")
	g.charts = append(g.charts, c)
	return g
}

func TestModes(t *testing.T) {
	for mode, code := range map[Mode]string{"": "", "source": "", "registry": "registry", "bundle=": "usage", "bundle": "usage", "docker": "usage", "bundle=/nonexistent": "bad_bundle"} {
		_, err := Open(t.Context(), Options{Mode: mode, CacheDir: t.TempDir(), Mirror: "127.0.0.1:1"})
		var labErr *lab.Error
		exit := lab.ExitInvalid
		if code == "registry" { // valid, but unreachable
			exit = lab.ExitFailed
		}
		if got := errors.As(err, &labErr); got != (code != "") || got && (labErr.Code != code || labErr.Exit != exit) {
			t.Errorf("%q: %v, want code %q", mode, err, code)
		}
	}
}

func TestListOrderAndSourceItems(t *testing.T) {
	s := open(t, Options{Mode: ModeSource, CacheDir: t.TempDir()})
	items, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range items {
		names = append(names, i.Title())
		if i.Key == "" || i.Ref == "" || i.Version == "" || i.Present || i.Kind == KindImage && i.Seconds == 0 {
			t.Errorf("%+v", i)
		}
	}
	if needed := s.needed(slices.Clone(items)); slices.ContainsFunc(needed, func(i Item) bool { return i.variant() || i.Title() == "argo-cd 3.2.11" }) {
		t.Errorf("other versions than the default are needed: %+v", needed)
	}
	want := []string{
		"node", "gitea", "gate", "argocd", "redis",
		"source-controller", "kustomize-controller", "helm-controller", "notification-controller", "image-reflector-controller", "image-automation-controller",
		"source-watcher", "front", "door", "registry", "podinfo", "podinfo-old", "metrics-server",
		"sealed-secrets", "gatekeeper", "cert-manager-controller", "cert-manager-webhook", "cert-manager-cainjector", "external-secrets",
		"kyverno", "kyvernopre", "kyverno-readiness-checker", "argo-rollouts", "flux-operator", "alertmanager", "prometheus",
		"external-dns", "external-dns-coredns", "external-dns-etcd", "traefik", "tofu", "karpenter-kwok", "kwok", "istiod", "istio-app", "agnhost",
		"node-1.36.5", "node-1.35.8", "node-1.34.12", "node-1.33.5", "node-1.32.9", "argocd-3.2.11",
		"argo-cd 3.6.1", "argo-cd 3.2.11", "flux2 2.9.5", "podinfo 6.9.2", "podinfo 6.7.0", "metrics-server 3.13.1", "karpenter 0.35.0", "kwok 0.2.0", "stage-fast 0.2.0",
		"sealed-secrets 2.19.3", "gatekeeper 3.23.1", "cert-manager v1.11.5", "external-secrets 0.18.1", "kyverno 3.9.1", "argo-rollouts 1.9.0", "external-dns 1.20.0",
		"gateway-api 1.4.1", "base 1.0.0", "istiod 1.0.0", "flux-operator 0.59.0",
	}
	if !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

func TestAutoRegistry(t *testing.T) {
	g := makeGoods(t)
	server := publish(t, g)
	dir := t.TempDir()
	o := Options{CacheDir: dir, Mirror: host(server)}
	s := open(t, o)
	if s.Origin() != lab.OriginRegistry || !strings.Contains(s.Why(), host(server)) {
		t.Fatalf("%s: %s", s.Origin(), s.Why())
	}
	if _, err := s.Image(t.Context(), "node", nil); err != nil {
		t.Fatal(err)
	}
	if again := open(t, o); again.Origin() != lab.OriginRegistry || again.Why() != s.Why() {
		t.Errorf("second time %s: %s", again.Origin(), again.Why())
	}
}

func TestAutoSource(t *testing.T) {
	if source.Possible() != nil {
		t.Skip("needs Linux")
	}
	server := publish(t, makeGoods(t))
	mirror := host(server)
	server.Close()
	dir := t.TempDir()
	s := open(t, Options{CacheDir: dir, Mirror: mirror})
	if s.Origin() != lab.OriginSource || !strings.Contains(s.Why(), mirror) {
		t.Fatalf("%s: %s", s.Origin(), s.Why())
	}
	fillSource(t, dir, "node")
	if err := s.remember(decision{Origin: lab.OriginSource, Why: "because"}); err != nil {
		t.Fatal(err)
	}
	if again := open(t, Options{CacheDir: dir}); again.Origin() != lab.OriginSource || again.Why() != "because" {
		t.Errorf("with the node image built: %s: %s", again.Origin(), again.Why())
	}
}

func TestAutoBundle(t *testing.T) {
	g := makeGoods(t)
	dir := t.TempDir()
	file := save(t, g)
	s, err := load(t, &Options{CacheDir: dir}, file)
	if err != nil {
		t.Fatal(err)
	}
	if s.Origin() != lab.OriginBundle {
		t.Errorf("after Load, origin of images: %s", s.Origin())
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	again := open(t, Options{CacheDir: dir})
	if !strings.Contains(again.Why(), "lab.tar.zst") {
		t.Errorf("why: %s", again.Why())
	}
	contract(t, again, g, lab.OriginBundle)
}

func TestSaveThenLoadElsewhere(t *testing.T) {
	g := makeGoods(t)
	dir := t.TempDir()
	own := fillSource(t, dir, "front")
	from := open(t, Options{Mode: ModeRegistry, Mirror: host(publish(t, g)), CacheDir: dir})
	file := filepath.Join(t.TempDir(), "lab.tar.zst")
	if err := from.Save(t.Context(), file, nil); err != nil {
		t.Fatal(err)
	}
	g.images = append(g.images, own.images...)
	contract(t, open(t, Options{Mode: Mode("bundle=" + file), CacheDir: t.TempDir()}), g, lab.OriginBundle)
}

func TestImagesOfChart(t *testing.T) {
	s := open(t, Options{Mode: ModeSource, CacheDir: t.TempDir()})
	if got := s.ImagesOf("podinfo", "6.7.0"); !slices.Equal(got, []string{"podinfo-old"}) {
		t.Errorf("got %v", got)
	}
	if got := s.ImagesOf("kro", "1.0.0"); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

// A run without changes opens the supply and queries it a few dozen times: milliseconds of its budget of three seconds.
func BenchmarkOpenAndAsk(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		s := open(b, Options{Mode: ModeSource, CacheDir: dir})
		for range 30 {
			s.Present("node", "", "")
		}
	}
}
