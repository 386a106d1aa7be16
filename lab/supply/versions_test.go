package supply

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"homelab/lab"
	"homelab/lab/supply/chart"
	"homelab/lab/supply/registry"
)

// makeChartOf makes a chart that installs a version of an application.
func makeChartOf(t *testing.T, chart, version, app, values string) lab.Chart {
	t.Helper()
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	for file, text := range map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: " + chart + "\nversion: " + version + "\nappVersion: " + app + "\n", "values.yaml": values,
	} {
		err := tw.WriteHeader(&tar.Header{Name: chart + "/" + file, Mode: 0o644, Size: int64(len(text))})
		if _, writeErr := io.WriteString(tw, text); errors.Join(err, writeErr) != nil {
			t.Fatal(err, writeErr)
		}
	}
	if err := errors.Join(tw.Close(), zw.Close()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "chart.tgz")
	if err := os.WriteFile(file, buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(buf.Bytes())
	return lab.Chart{Name: chart, Version: version, Digest: "sha256:" + hex.EncodeToString(sum[:]), Archive: file}
}

// defaults are lab's own pins of what the tests choose versions of.
type defaults struct {
	argocd, argocdMinor, chart, flux, source string
	pins                                     registry.Pins
}

func ownPins(t *testing.T) defaults {
	t.Helper()
	pins, err := registry.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	d := defaults{chart: pins.First("argo-cd"), flux: pins.First("flux2"), pins: pins}
	for _, p := range pins.Images {
		switch p.Name {
		case "argocd":
			d.argocd = strings.TrimPrefix(tag(p.Ref), "v")
		case "source-controller":
			d.source = tag(p.Ref)
		}
	}
	d.argocdMinor = registry.Minor(d.argocd)
	return d
}

// versioned are goods in several versions, of which lab pins the first.
func versioned(t *testing.T, d defaults) goods {
	t.Helper()
	return goods{
		images: []lab.Image{
			makeImageOf(t, "argocd", "quay.io/argoproj/argocd:v"+d.argocd, strings.Repeat("a", 64)), makeImage(t, "argocd-3.1.4", "quay.io/argoproj/argocd:v3.1.4"),
			makeImage(t, "argocd-3.0.2", "quay.io/argoproj/argocd:v3.0.2"),
			makeImage(t, "node-1.30.2", "kindest/node:v1.30.2"), makeImage(t, "node-1.30.9", "kindest/node:v1.30.9"),
			makeImageOf(t, "source-controller", "ghcr.io/fluxcd/source-controller:"+d.source, strings.Repeat("a", 64)), makeImage(t, "source-controller-9.9.9", "ghcr.io/fluxcd/source-controller:v9.9.9"),
		},
		charts: []lab.Chart{
			makeChartOf(t, "argo-cd", d.chart, "v"+d.pins.App("argo-cd", d.chart), ""), makeChartOf(t, "argo-cd", "8.5.9", "v3.1.3", ""), makeChartOf(t, "argo-cd", "8.0.0", "v3.0.2", ""),
			makeChartOf(t, "flux2", d.flux, d.pins.App("flux2", d.flux), ""),
			makeChartOf(t, "flux2", "2.99.0", "2.99.1", "sourceController: {image: ghcr.io/fluxcd/source-controller, tag: v9.9.9}\ncli: {image: ghcr.io/fluxcd/flux-cli, tag: v2.99.1}\n"),
		},
	}
}

// plainMirror serves goods without pins of its own.
func plainMirror(t *testing.T, g goods) *httptest.Server {
	t.Helper()
	server := publish(t, g)
	pins, err := name.NewTag(host(server) + "/lab/pins:latest")
	if err == nil {
		err = remote.Delete(pins)
	}
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// said formats a release, or the code and the cure of an error.
func said(r lab.Release, err error) string {
	var e *lab.Error
	switch {
	case errors.As(err, &e):
		return fmt.Sprintf("%s %d: %s: %s", e.Code, e.Exit, e.Message, e.Cure)
	case err != nil:
		return err.Error()
	}
	var images []string
	for _, base := range slices.Sorted(maps.Keys(r.Images)) {
		images = append(images, base+"="+r.Images[base])
	}
	return strings.TrimSpace(fmt.Sprintf("%s chart %s %s", r.Version, r.Chart, strings.Join(images, " ")))
}

func TestReleases(t *testing.T) {
	d := ownPins(t)
	g := versioned(t, d)
	mirror, plain := host(publish(t, g)), host(plainMirror(t, g))
	argocd := d.argocd + " chart " + d.chart
	flux := d.pins.App("flux2", d.flux) + " chart " + d.flux
	closed := "choose " + d.argocd + ", 3.1.4, 3.0.2"
	for name, tc := range map[string]struct {
		o    Options
		want map[string]string // "COMPONENT VERSION" -> release
	}{
		"registry": {Options{Mode: ModeRegistry, Mirror: plain}, map[string]string{
			"argocd ":                 argocd,
			"argocd " + d.argocd:      argocd,
			"argocd v" + d.argocd:     argocd,
			"argocd " + d.argocdMinor: argocd,
			"argocd 3.1.4":            "3.1.4 chart 8.5.9 argocd=argocd-3.1.4",
			"argocd 3.0":              "3.0.2 chart 8.0.0 argocd=argocd-3.0.2",
			"argocd 3.1.3":            "no_version 2: " + plain + " has no argo cd 3.1.3: choose ", // a chart, and no image
			"argocd 3.1.0-rc1":        "no_version 2: " + plain + " has no argo cd 3.1.0-rc1: choose ",
			"argocd latest":           "no_version 2: " + plain + " has no argo cd latest: choose ",
			"argocd 9.9":              "no_version 2: " + plain + " has no argo cd 9.9: choose ",
			"node 1.30.2":             "1.30.2 chart  node=node-1.30.2",
			"node 1.30":               "1.30.9 chart  node=node-1.30.9",
			"node 1.30.3":             "no_version 2: " + plain + " has no kubernetes 1.30.3: choose ",
			"flux ":                   flux,
			"flux 2.9":                flux,
			"flux 2.99":               "2.99.1 chart 2.99.0 source-controller=source-controller-9.9.9",
			"flux 2.99.2":             "no_version 2: " + plain + " has no flux 2.99.2: choose 2.99.1",
			"redis 8":                 "supply: redis has no versions",
		}},
		"mirror": {Options{Mode: ModeRegistry, Mirror: mirror}, map[string]string{
			"argocd ":      argocd,
			"argocd 3.1":   "3.1.4 chart 8.5.9 argocd=argocd-3.1.4",
			"argocd 3.1.3": "no_version 2: " + mirror + " has no argo cd 3.1.3: " + closed,
			"node ":        "chart", // it has no default, which is an error once it is needed
			"node 1.30":    "1.30.9 chart  node=node-1.30.9",
			"flux ":        flux,
			"flux 2.99.1":  "2.99.1 chart 2.99.0 source-controller=source-controller-9.9.9",
			"flux 2.98":    "no_version 2: " + mirror + " has no flux 2.98: choose 2.99.1",
		}},
		"bundle": {Options{Mode: Mode("bundle=" + save(t, g))}, map[string]string{
			"argocd ":      argocd,
			"node ":        "chart",
			"argocd 3.0.2": "3.0.2 chart 8.0.0 argocd=argocd-3.0.2",
			"argocd 3.6.1": "no_version 2: the bundle has no argo cd 3.6.1: " + closed,
			"node 1.30.2":  "1.30.2 chart  node=node-1.30.2",
			"flux 2.99":    "2.99.1 chart 2.99.0 source-controller=source-controller-9.9.9",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.o.CacheDir = t.TempDir()
			s := open(t, tc.o)
			for of, want := range tc.want {
				component, version, _ := strings.Cut(of, " ")
				if got := said(s.Release(t.Context(), component, version)); !strings.HasPrefix(got, want) || !strings.Contains(want, ": ") && got != want && !strings.HasPrefix(want, "supply") {
					t.Errorf("%s\n got %s\nwant %s", of, got, want)
				}
			}
		})
	}
}

// The recipes' versions of an image, with their charts, are what source has.
func TestReleasesFromSource(t *testing.T) {
	s := open(t, Options{Mode: ModeSource, CacheDir: t.TempDir()})
	list := s.recipes.Versioned("argocd")
	for i, c := range list {
		version := strings.TrimPrefix(c.Version, "v")
		want := fmt.Sprintf("%s chart %s", version, version)
		if i > 0 {
			want += " argocd=" + c.Name
		}
		for _, wanted := range []string{version, registry.Minor(version)} {
			if got := said(s.Release(t.Context(), "argocd", wanted)); got != want {
				t.Errorf("%s: %s, want %s", wanted, got, want)
			}
		}
	}
	if r, err := s.Release(t.Context(), "argocd", ""); err != nil || r.Image("argocd") != "argocd" || r.Image("redis") != "redis" {
		t.Errorf("%+v, %v", r, err)
	}
	if got := s.Versions("node"); len(got) != len(s.recipes.Versioned("node")) || !slices.IsSortedFunc(got, func(a, b string) int { return registry.Compare(b, a) }) {
		t.Errorf("versions of node: %v", got)
	}
	recipe, err := chart.Find("flux2", "")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := said(s.Release(t.Context(), "flux", registry.Minor(recipe.Version))), recipe.Version+" chart "+recipe.Version; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	images, err := s.imagesIn(t.Context(), "flux2", recipe.Version)
	if err != nil || images["source-watcher"] != s.Version("source-watcher") || images["helm-controller"] != s.Version("helm-controller") {
		t.Errorf("%v, %v", images, err)
	}
	if got, want := said(s.Release(t.Context(), "node", "1.0")), "no_version 2: lab's source has no kubernetes 1.0: choose "+s.Versions("node")[0]; !strings.HasPrefix(got, want) || !strings.Contains(got, "--images registry") {
		t.Errorf("%s, want %s", got, want)
	}
}

// Names of what lab built have a key after the version.
func TestReleasesOfBuilt(t *testing.T) {
	g := goods{images: []lab.Image{
		makeImageOf(t, "node", "lab/node:v1.37.2-aaaaaaaaaaaa", strings.Repeat("a", 64)), makeImageOf(t, "node-1.36.3", "lab/node:v1.36.3-bbbbbbbbbbbb", strings.Repeat("b", 64)),
	}}
	for _, o := range []Options{{Mode: ModeRegistry, Mirror: host(publish(t, g))}, {Mode: Mode("bundle=" + save(t, g))}} {
		o.CacheDir = t.TempDir()
		s := open(t, o)
		for want, release := range map[string]string{
			"": "1.37.2 chart", "1.37.2": "1.37.2 chart", "1.36": "1.36.3 chart  node=node-1.36.3", "1.36.3": "1.36.3 chart  node=node-1.36.3",
		} {
			if got := said(s.Release(t.Context(), "node", want)); got != release {
				t.Errorf("%s %q: %s, want %s", o.Mode, want, got, release)
			}
		}
		if img, err := s.Image(t.Context(), "node-1.36.3", nil); err != nil || img.Digest != g.images[1].Digest {
			t.Errorf("%+v, %v", img, err)
		}
	}
}

// A version that is in no table is listed once it was asked for, and is bundled once it is here.
func TestVariantItems(t *testing.T) {
	d := ownPins(t)
	server := plainMirror(t, versioned(t, d))
	s := open(t, Options{Mode: ModeRegistry, Mirror: host(server), CacheDir: t.TempDir()})
	items := func() []Item {
		all, err := s.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	names := func(list []Item) string {
		var names []string
		for _, i := range list {
			names = append(names, i.Title())
		}
		return " " + strings.Join(names, ", ") + ","
	}
	if got := names(s.needed(items())); strings.Contains(got, "argocd-") || strings.Contains(got, "node-") || strings.Count(got, "argo-cd") != 1 || strings.Contains(names(items()), "argocd-3.1.4") {
		t.Errorf("needed:%s of%s", got, names(items()))
	}
	// Before anyone asks, and without a request.
	if s.Ref("argocd-3.1.4") != "quay.io/argoproj/argocd:v3.1.4" || s.Version("argocd-3.1.4") != "v3.1.4" || s.Key("argocd-3.1.4") == "" || s.Present("argocd-3.1.4", "", "") {
		t.Errorf("ref %q, version %q, key %q", s.Ref("argocd-3.1.4"), s.Version("argocd-3.1.4"), s.Key("argocd-3.1.4"))
	}
	r, err := s.Release(t.Context(), "argocd", "3.1.4")
	if err != nil || !strings.Contains(r.Note, "compared with its first pull") || !strings.Contains(r.Note, "its chart argo-cd 8.5.9 was made for 3.1.3") {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := names(items()); !strings.Contains(got, " argocd-3.1.4,") || !strings.Contains(got, " argo-cd 8.5.9,") || strings.Contains(names(s.needed(items())), "8.5.9") {
		t.Errorf("listed:%s", got)
	}
	if got, err := s.Choose(t.Context(), []string{"argocd-3.1.4", "argo-cd-8.5.9", "node-1.30.2"}); err != nil || names(got) != " argocd-3.1.4, argo-cd 8.5.9, node-1.30.2," {
		t.Errorf("chosen:%s, %v", names(got), err)
	}
	if got, err := s.Choose(t.Context(), []string{"argo-cd"}); err != nil || names(got) != " argo-cd "+d.chart+"," {
		t.Errorf("chosen:%s, %v", names(got), err)
	}
	if _, err := s.Choose(t.Context(), []string{"argocd-rc1"}); err == nil {
		t.Error("chose what does not exist")
	}
	if _, err := s.Image(t.Context(), r.Image("argocd"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Chart(t.Context(), "argo-cd", r.Chart, nil); err != nil {
		t.Fatal(err)
	}
	if s.ChartVersion("argo-cd") != d.chart {
		t.Errorf("the default chart became %s", s.ChartVersion("argo-cd"))
	}
	server.Close()
	if got, err := s.Release(t.Context(), "argocd", "3.1.4"); err != nil || got.Chart != "8.5.9" || !s.Present(r.Image("argocd"), "", "") || !s.Present("", "argo-cd", r.Chart) {
		t.Errorf("offline: %+v, %v", got, err)
	}
	if got := said(s.Release(t.Context(), "argocd", "3.0.2")); !strings.HasPrefix(got, "registry 1: versions of argocd could not be listed: try again, or choose ") {
		t.Errorf("offline: %s", got)
	}
	if got := s.Versions("argocd"); !slices.Contains(got, "3.1.4") || !slices.Contains(got, d.argocd) || got[0] == "3.1.4" {
		t.Errorf("versions %v", got)
	}
	if got := names(s.needed(items())); !strings.Contains(got, " argocd-3.1.4,") || !strings.Contains(got, " argo-cd 8.5.9,") {
		t.Errorf("needed once it is here:%s", got)
	}
	var bom bytes.Buffer
	if err := s.SBOM(t.Context(), []string{"argocd-3.1.4"}, &bom); err != nil || !strings.Contains(bom.String(), "v3.1.4") {
		t.Errorf("%v\n%s", err, bom.String())
	}
	if err := s.SBOM(t.Context(), []string{"node-1.30.2"}, &bom); !strings.Contains(fmt.Sprint(err), "node-1.30.2 is not here") {
		t.Errorf("%v", err)
	}
	// Flux needs none of it.
	s.options.Engine = lab.EngineFlux
	if got := names(s.needed(items())); strings.Contains(got, "argo") {
		t.Errorf("needed by flux:%s", got)
	}
}

// Mode auto keeps its decision if the only node image that is here is of another version.
func TestAutoKeepsVariant(t *testing.T) {
	dir := t.TempDir()
	g := versioned(t, ownPins(t))
	server := plainMirror(t, g)
	o := Options{CacheDir: dir, Mirror: host(server)}
	s := open(t, o)
	if r, err := s.Release(t.Context(), "node", "1.30"); err != nil || r.Image("node") != "node-1.30.9" {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := s.Image(t.Context(), "node-1.30.9", nil); err != nil {
		t.Fatal(err)
	}
	if again := open(t, o); again.Origin() != lab.OriginRegistry || again.Why() != s.Why() {
		t.Errorf("second time %s: %s", again.Origin(), again.Why())
	}
	if ok, err := s.again(t.Context(), decision{Origin: lab.OriginRegistry, Mirror: host(server)}); !ok || err != nil {
		t.Errorf("not kept: %v", err)
	}
}
