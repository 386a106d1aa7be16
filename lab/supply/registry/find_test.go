package registry

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"homelab/lab"
)

func TestVariants(t *testing.T) {
	pins := Pins{Images: []ImagePin{
		{Name: "argocd", Ref: "quay.io/argoproj/argocd:v3.5.9"},
		{Name: "argocd-3.4.15", Ref: "quay.io/argoproj/argocd:v3.4.15", Digest: "sha256:1"},
		{Name: "podinfo", Ref: "host.test:5000/podinfo:6.9.2"},
		{Name: "redis", Ref: "redis:8.6.4-alpine"},
	}}
	for name, want := range map[string]string{
		"argocd":             "quay.io/argoproj/argocd:v3.5.9 ",
		"argocd-3.4.15":      "quay.io/argoproj/argocd:v3.4.15 sha256:1",
		"argocd-3.4.9":       "quay.io/argoproj/argocd:v3.4.9 ",
		"podinfo-6.7.0":      "host.test:5000/podinfo:6.7.0 ",
		"redis-8.2.3":        " ", // its tag says more than a version
		"argocd-3.4":         " ",
		"argocd-3.6.0-rc1":   " ",
		"argocd-3.4.9-2.0.0": " ",
		"other-1.0.0":        " ",
	} {
		pin, _ := pins.image(name)
		if got := pin.Ref + " " + pin.Digest; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	pins.closed = true
	if pin, ok := pins.image("argocd-3.4.9"); ok {
		t.Errorf("a mirror's own pins have %+v", pin)
	}
}

func TestNearest(t *testing.T) {
	var charts []ChartPin
	for _, c := range strings.Fields("10.10.1=3.5.4 10.10.0=3.5.4 10.9.6=3.5.3 10.2.2=3.4.6 10.1.4=3.4.5 9.0.0= 8.0.0=2.9") {
		version, app, _ := strings.Cut(c, "=")
		charts = append(charts, ChartPin{Name: "x", Version: version, App: app})
	}
	for want, chart := range map[string]string{
		"3.5.4": "10.10.1", "3.5.3": "10.9.6", "3.5.9": "10.10.1", "3.5.0": "10.9.6", "3.4.15": "10.2.2", "3.4.5": "10.1.4", "3.4.0": "10.1.4", "3.6.0": "", "2.9": "8.0.0", "2.9.5": "8.0.0",
	} {
		slices.Reverse(charts) // whatever their order
		if c, ok := Nearest(charts, want); c.Version != chart || ok != (chart != "") {
			t.Errorf("%s: %+v, want %s", want, c, chart)
		}
	}
}

// upstream is a registry and a chart repository that count requests.
type upstream struct {
	server   *httptest.Server
	requests atomic.Int64
	pins     Pins
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{}
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	charts := map[string][]byte{}
	var index strings.Builder
	index.WriteString("apiVersion: v1\nentries:\n  argo-cd:\n")
	for _, c := range strings.Fields("10.11.0-rc1=v3.5.9 10.10.0=v3.5.4 10.9.6=v3.5.3 10.2.2=v3.4.6 9.5.12=v3.3.9 9.5.11=v3.3.9 9.4.0=v3.3.0 9.3.0=v3.2.0-rc1") {
		version, app, _ := strings.Cut(c, "=")
		data, err := os.ReadFile(makeChartOf(t, "argo-cd", version, app).Archive)
		if err != nil {
			t.Fatal(err)
		}
		charts["/argo-cd-"+version+".tgz"] = data
		fmt.Fprintf(&index, "  - {name: argo-cd, version: %s, appVersion: %s, urls: [argo-cd-%s.tgz]}\n", version, app, version)
	}
	u.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.requests.Add(1)
		switch data, ok := charts[r.URL.Path]; {
		case ok:
			w.Write(data)
		case r.URL.Path == "/index.yaml":
			io.WriteString(w, index.String())
		default:
			images.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(u.server.Close)
	host := strings.TrimPrefix(u.server.URL, "http://")
	for _, ref := range strings.Fields("argoproj/argocd:v3.5.9 argoproj/argocd:v3.5.3 argoproj/argocd:v3.4.9 argoproj/argocd:v3.3.9 kindest/node:v1.37.0 kindest/node:v1.35.4 kindest/node:v1.35.8 kindest/node:v1.36.0-rc.1 kindest/node:latest") {
		push(t, host+"/"+ref, makeImage(t, "x", host+"/"+ref))
	}
	u.pins = Pins{
		Images: []ImagePin{{Name: "argocd", Ref: host + "/argoproj/argocd:v3.5.9", Unknown: "x"}, {Name: "node", Ref: host + "/kindest/node:v1.37.0", Unknown: "x"}},
		Charts: []ChartPin{{Name: "argo-cd", Version: "10.10.0", App: "3.5.4", From: u.server.URL, Unknown: "x"}},
	}
	return u
}

func (u *upstream) open(t *testing.T, dir string) *Registry {
	t.Helper()
	r, err := newRegistry(Options{Dir: dir, Platform: "linux/amd64"}, u.pins)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFind(t *testing.T) {
	u := newUpstream(t)
	argocd, node := Wanted{Image: "argocd", Chart: "argo-cd"}, Wanted{Image: "node"}
	for _, tc := range []struct {
		name string
		w    Wanted
		want string // "IMAGE CHART", or the versions that are served
	}{
		{"3.5.3", argocd, "argocd-3.5.3 10.9.6"},
		{"3.4.9", argocd, "argocd-3.4.9 10.2.2"}, // no chart was made for it
		{"3.3", argocd, "argocd-3.3.9 9.5.12"},
		{"3.5.2", argocd, "not served: 3.5.4 3.4.6 3.3.9"}, // a chart near to it, and no image
		{"3.2", argocd, "not served: 3.5.4 3.4.6 3.3.9"},   // a chart of a pre-release alone
		{"3.2.0", argocd, "not served: 3.5.4 3.4.6 3.3.9"},
		{"1.35.4", node, "node-1.35.4 "},
		{"1.35", node, "node-1.35.8 "},
		{"1.36", node, "not served: 1.37.0 1.35.8"}, // a pre-release
		{"1.36.1", node, "not served: 1.37.0 1.35.8"},
		{"3.5.4", Wanted{Chart: "argo-cd"}, " 10.10.0"},
		{"3.5.5", Wanted{Chart: "argo-cd"}, "not served: 3.5.4 3.4.6 3.3.9"}, // what has its images from the chart needs its own
	} {
		r := u.open(t, t.TempDir())
		tc.w.Version = tc.name
		f, err := r.Find(t.Context(), tc.w)
		got := f.Image + " " + f.Chart.Version
		var none *NotServed
		if errors.As(err, &none) {
			got = "not served: " + strings.Join(none.Versions, " ")
		} else if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%v: %q, want %q", tc.w, got, tc.want)
		}
	}
}

// What was found is remembered: by the next lab and without the network. A minor is looked up again unless its image is here.
func TestFindOnce(t *testing.T) {
	u := newUpstream(t)
	dir := t.TempDir()
	find := func(version string) (Found, error) {
		return u.open(t, dir).Find(t.Context(), Wanted{Image: "argocd", Chart: "argo-cd", Version: version})
	}
	asked := func(version string, want bool) {
		t.Helper()
		before := u.requests.Load()
		if f, err := find(version); err != nil || f.Image == "" || f.Chart.App == "" {
			t.Errorf("%s: %+v, %v", version, f, err)
		}
		if got := u.requests.Load() > before; got != want {
			t.Errorf("%s: asked %t, want %t", version, got, want)
		}
	}
	asked("3.4.9", true)
	asked("3.4.9", false)
	asked("3.3", true)
	asked("3.3.9", false)
	asked("3.3", true)
	r := u.open(t, dir)
	if _, err := r.Image(t.Context(), "argocd-3.3.9", nil); err != nil {
		t.Fatal(err)
	}
	c, err := r.Chart(t.Context(), "argo-cd", "9.5.12", nil)
	if err != nil || c.Version != "9.5.12" {
		t.Fatalf("%+v, %v", c, err)
	}
	asked("3.3", false)
	u.server.Close()
	asked("3.3", false)
	asked("3.4.9", false)
	if _, err := find("3.5.3"); !isCode(err, "registry") {
		t.Errorf("offline: %v", err)
	}
	if found, err := u.open(t, dir).Found(); err != nil || len(found) != 3 || found[0].Version != "3.4.9" {
		t.Errorf("%+v, %v", found, err)
	}
	if err := os.WriteFile(filepath.Join(dir, foundFile), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := find("3.4.9"); !isCode(err, "bad_lock") {
		t.Errorf("unreadable: %v", err)
	}
}

func isCode(err error, code string) bool {
	var e *lab.Error
	return errors.As(err, &e) && e.Code == code
}

// The content of a version that no pin has is compared with its first pull.
func TestFoundFirstUse(t *testing.T) {
	u := newUpstream(t)
	dir := t.TempDir()
	var said []string
	r := u.open(t, dir)
	img, err := r.Image(t.Context(), "argocd-3.4.9", func(line string) { said = append(said, line) })
	if err != nil || !strings.HasSuffix(img.Ref, "/argoproj/argocd:v3.4.9") || img.Name != "argocd-3.4.9" {
		t.Fatalf("%+v, %v", img, err)
	}
	if !slices.ContainsFunc(said, func(line string) bool { return strings.Contains(line, "it is compared with the first one pulled") }) {
		t.Errorf("said %q", said)
	}
	if err := os.Remove(img.Archive); err != nil {
		t.Fatal(err)
	}
	push(t, img.Ref, makeImage(t, "x", img.Ref))
	_, err = u.open(t, dir).Image(t.Context(), "argocd-3.4.9", nil)
	wantCode(t, err, "digest_changed")
	_, err = r.Image(t.Context(), "argocd-9.9.9", nil)
	wantCode(t, err, "registry")
	_, err = r.Image(t.Context(), "argocd-3.6.0-rc1", nil)
	wantCode(t, err, "no_image")
	_, err = r.Chart(t.Context(), "argo-cd", "9.4.0", nil) // nobody asked for what it installs
	wantCode(t, err, "no_chart")
}

// A chart that installs another version than its pin says is refused.
func TestChartApp(t *testing.T) {
	u := newUpstream(t)
	for app, want := range map[string]string{"": "", "3.5.4": "", "3.5": "", "3.5.3": "it installs v3.5.4 where 3.5.3 is pinned", "3.6": "it installs v3.5.4 where 3.6 is pinned"} {
		u.pins.Charts[0].App = app
		_, err := u.open(t, t.TempDir()).Chart(t.Context(), "argo-cd", "", nil)
		if want == "" && err != nil || want != "" && (!isCode(err, "registry") || !strings.Contains(err.Error(), want)) {
			t.Errorf("app %q: %v, want %q", app, err, want)
		}
	}
	if app, err := ChartApp(t.Context(), u.pins.Charts[0]); err != nil || app != "3.5.4" {
		t.Errorf("%q, %v", app, err)
	}
	if _, err := ChartApp(t.Context(), ChartPin{Name: "argo-cd", Version: "1.0.0", From: u.server.URL}); err == nil {
		t.Error("a chart that is not served installs something")
	}
}

// A mirror without pins has charts as a registry has them, and one with pins has nothing else.
func TestFindInMirror(t *testing.T) {
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	mirror := strings.TrimPrefix(s.URL, "http://")
	pins := Pins{
		Images: []ImagePin{{Name: "argocd", Ref: "quay.io/argoproj/argocd:v3.5.9", Unknown: "x"}},
		Charts: []ChartPin{{Name: "argo-cd", Version: "10.10.0", App: "3.5.4", From: "https://charts.test", Unknown: "x"}},
	}
	push(t, mirror+"/quay.io/argoproj/argocd:v3.4.9", makeImage(t, "argocd", "quay.io/argoproj/argocd:v3.4.9"))
	for _, c := range []lab.Chart{makeChartOf(t, "argo-cd", "10.2.2", "v3.4.6"), makeChartOf(t, "argo-cd", "10.10.0", "v3.5.4")} {
		if _, err := publishChart(mirror, c, options(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	w := Wanted{Image: "argocd", Chart: "argo-cd", Version: "3.4.9"}
	dir := t.TempDir()
	r := plain(t, mirror, dir, pins)
	f, err := r.Find(t.Context(), w)
	if err != nil || f.Image != "argocd-3.4.9" || f.Chart.Version != "10.2.2" {
		t.Fatalf("%+v, %v", f, err)
	}
	if c, err := r.Chart(t.Context(), "argo-cd", "10.2.2", nil); err != nil || c.Version != "10.2.2" {
		t.Errorf("%+v, %v", c, err)
	}
	if found, err := plain(t, "", dir, pins).Found(); err != nil || len(found) > 0 {
		t.Errorf("upstream is said to have %+v, %v", found, err)
	}
	if err := Publish(t.Context(), mirror, []lab.Image{makeImage(t, "argocd", "quay.io/argoproj/argocd:v3.5.9")}, nil, nil); err != nil {
		t.Fatal(err)
	}
	r = plain(t, mirror, dir, pins)
	var none *NotServed
	if _, err := r.Find(t.Context(), w); !errors.As(err, &none) || !r.Closed() {
		t.Errorf("with pins of its own: %v", err)
	}
	_, err = r.Image(t.Context(), "argocd-3.4.9", nil)
	wantCode(t, err, "no_image")
}
