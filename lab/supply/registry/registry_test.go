package registry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"homelab/lab"
)

func TestEmbeddedPins(t *testing.T) {
	pins, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	node, ok := pins.image(NodeImage)
	if !ok || !strings.HasPrefix(node.Ref, "kindest/node:v") || !strings.HasPrefix(node.Digest, "sha256:") {
		t.Errorf("node is %+v", node)
	}
	for _, p := range pins.Images {
		if base, version, ok := Variant(p.Name); ok {
			of, _ := pins.image(base)
			synthetic, ok := Pins{Images: []ImagePin{of}}.image(p.Name)
			if !ok || synthetic.Ref != p.Ref || strings.HasSuffix(of.Ref, ":v"+version) {
				t.Errorf("%s is not another version of %s: %s", p.Name, base, p.Ref)
			}
		}
	}
	for _, component := range []string{"argocd", "argocd-3.6.3", "node-1.35.8", "gitea", "redis", "podinfo", "podinfo-old", "metrics-server"} {
		if _, ok := pins.image(component); !ok {
			t.Errorf("%s is not pinned", component)
		}
	}
	for _, chart := range []string{"argo-cd", "podinfo", "metrics-server"} {
		if _, ok := pins.chart(chart, ""); !ok {
			t.Errorf("chart %s is not pinned", chart)
		}
	}
}

func TestPinsStrict(t *testing.T) {
	const digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	for text, want := range map[string]string{
		"images: [{name: a, ref: 'h.test/a:1', digest: '" + digest + "'}]":                                                   "",
		"images: [{name: a, ref: 'h.test/a:1', platforms: {linux/arm64: '" + digest + "'}}]":                                 "",
		"charts: [{name: a, version: '1', from: 'http://127.0.0.1:1/x', unknown: none is published}]":                        "",
		"images: [{name: a-1.2.3, ref: 'h.test/a:v1.2.3', unknown: x}]":                                                      "",
		"images: [{name: a-1.2.3, ref: 'h.test/a:v1.2.4', unknown: x}]":                                                      "its tag is v1.2.4",
		"images: [{name: a-1.2.3, ref: 'lab/a:v1.2.3-0123456789ab', unknown: x}]":                                            "",
		"images: [{name: a-1.2.3, ref: 'h.test/a:v1.2.3-alpine', unknown: x}]":                                               "its tag is v1.2.3-alpine",
		"charts: [{name: a, version: '1', app: 3.10, from: 'oci://h.test', unknown: x}]":                                     "",
		"charts: [{name: a, version: '1', app: v3.6.1, from: 'oci://h.test', unknown: x}]":                                   "must be like 3.6.1 or 3.6",
		"images: [{name: a, ref: 'h.test/a:1'}]":                                                                             "a digest is required",
		"charts: [{name: a, version: '1', from: 'oci://h.test'}]":                                                            "a digest is required",
		"images: [{name: a, ref: 'h.test/a'}]":                                                                               "must be repository:tag",
		"images: [{name: a, ref: 'h.test/a:1@" + digest + "'}]":                                                              "must be repository:tag",
		"images: [{name: a, ref: 'h.test/a:1', digest: 'sha256:12'}]":                                                        "not a sha256 digest",
		"images: [{name: a, ref: 'h.test/a:1', platforms: {amd64: '" + digest + "'}}]":                                       "must be like linux/amd64",
		"images: [{name: a, ref: 'h.test/a:1', sha: x}]":                                                                     "field sha not found",
		"images: [{name: a, ref: 'h.test/a:1', unknown: x}, {name: a, ref: 'h.test/a:2'}]":                                   "duplicate",
		"charts: [{name: a, version: '1', from: 'http://example.test'}]":                                                     "are required",
		"charts: [{name: a, version: '1', from: 'oci://h.test', unknown: x}, {name: a, version: '1', from: 'oci://h.test'}]": "duplicate",
	} {
		_, err := parsePins([]byte(text))
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v, want %q", text, err, want)
		}
	}
}

func TestMirrorNames(t *testing.T) {
	for ref, want := range map[string]string{
		"quay.io/argoproj/argocd:v3.2.6": "127.0.0.1:5001/quay.io/argoproj/argocd:v3.2.6",
		"kindest/node:v1.37.0":           "127.0.0.1:5001/docker.io/kindest/node:v1.37.0",
		"redis:8":                        "127.0.0.1:5001/docker.io/library/redis:8",
		"docker.io/rancher/x:1":          "127.0.0.1:5001/docker.io/rancher/x:1",
		"localhost:5000/a/b:1":           "127.0.0.1:5001/localhost-5000/a/b:1",
	} {
		got, err := Mirrored("127.0.0.1:5001", ref)
		if err != nil || got.String() != want {
			t.Errorf("%s: got %s, %v, want %s", ref, got, err, want)
		}
	}
	for _, bad := range []string{"http://127.0.0.1:5001", "a b", "UPPER/x"} {
		_, err := New(Options{Dir: t.TempDir(), Mirror: bad})
		wantCode(t, err, "usage")
	}
}

func TestLoopbackPlainHTTP(t *testing.T) {
	for _, mirror := range []string{"127.0.0.1:5001", "localhost:5001"} {
		targets, err := (&Registry{mirror: mirror}).targets()
		if err != nil || targets[mirror] != "http://"+mirror+"/v2/" {
			t.Errorf("%s: %v, %v", mirror, targets, err)
		}
	}
	targets, err := (&Registry{mirror: "mirror.test/team"}).targets()
	if err != nil || targets["mirror.test"] != "https://mirror.test/v2/" {
		t.Errorf("%v, %v", targets, err)
	}
}

func TestProbe(t *testing.T) {
	serve := func(status int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	good, auth, refused := serve(http.StatusOK), serve(http.StatusUnauthorized), serve(http.StatusForbidden)
	closed := httptest.NewServer(nil)
	closed.Close()
	gone := strings.TrimPrefix(closed.URL, "http://")
	image := func(host string) ImagePin { return ImagePin{Name: host, Ref: host + "/a:1"} }
	for _, tc := range []struct {
		name  string
		pins  Pins
		want  bool
		words string
	}{
		{"all answer", Pins{Images: []ImagePin{image(good), image(auth)}}, true, "2 registries and repositories answer"},
		{"one refuses", Pins{Images: []ImagePin{image(good), image(refused)}}, false, refused + " answers 403"},
		{"one is gone", Pins{Images: []ImagePin{image(good), image(gone)}}, false, gone + " does not answer"},
		{"several fail", Pins{Images: []ImagePin{image(refused), image(gone)}}, false, "and 1 more"},
		{"a chart repository wants a login", Pins{Charts: []ChartPin{{Name: "a", Version: "1", From: "http://" + auth}}}, false, "401"},
		{"a chart repository answers", Pins{Charts: []ChartPin{{Name: "a", Version: "1", From: "http://" + good}}}, true, good + " answers"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := newRegistry(Options{Dir: t.TempDir()}, tc.pins)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Probe(t.Context()); got.OK != tc.want || !strings.Contains(got.Why, tc.words) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestPullTwice(t *testing.T) {
	requests := 0
	chart := makeChart(t, "podinfo", "6.9.2")
	data, err := os.ReadFile(chart.Archive)
	if err != nil {
		t.Fatal(err)
	}
	digest := strings.TrimPrefix(chart.Digest, "sha256:")
	mux := http.NewServeMux()
	mux.HandleFunc("/charts/index.yaml", func(w http.ResponseWriter, _ *http.Request) {
		requests++
		fmt.Fprintf(w, "apiVersion: v1\nentries:\n  podinfo:\n  - {name: podinfo, version: 6.9.2, digest: %s, urls: [files/podinfo.tgz]}\n", digest)
	})
	mux.HandleFunc("/charts/files/podinfo.tgz", func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.Write(data)
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	dir := t.TempDir()
	pull := func(pin ChartPin) (lab.Chart, error) {
		r, err := newRegistry(Options{Dir: dir}, Pins{Charts: []ChartPin{pin}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Chart(t.Context(), pin.Name, pin.Version, nil)
	}
	pin := ChartPin{Name: "podinfo", Version: "6.9.2", From: s.URL + "/charts"}
	got, err := pull(pin)
	if err != nil || got.Digest != chart.Digest {
		t.Fatal(got, err)
	}
	if again, err := pull(pin); err != nil || again != got || requests != 2 {
		t.Errorf("second call: %+v, %v, %d requests", again, err, requests)
	}
	if err := os.WriteFile(got.Archive, []byte("broken"), 0o644); err != nil {
		t.Fatal(err)
	}
	if again, err := pull(pin); err != nil || again != got || requests != 4 {
		t.Errorf("with a broken file: %+v, %v, %d requests", again, err, requests)
	}

	digest = strings.Repeat("0", 64) // a wrong index
	if err := os.Remove(got.Archive); err != nil {
		t.Fatal(err)
	}
	_, err = pull(pin)
	wantCode(t, err, "registry")

	digest = ""
	if data, err = os.ReadFile(makeChart(t, "podinfo", "6.9.3").Archive); err != nil { // another chart
		t.Fatal(err)
	}
	_, err = pull(pin)
	wantCode(t, err, "digest_changed")
	pin.Digest = sum(data) // the pin matches, but the chart's metadata does not
	_, err = pull(pin)
	wantCode(t, err, "registry")
	if err == nil || !strings.Contains(err.Error(), "it contains podinfo 6.9.3") {
		t.Errorf("got %v", err)
	}
	pin.Version = "6.9"
	_, err = pull(pin)
	if err == nil || !strings.Contains(err.Error(), "it is not in index.yaml") {
		t.Errorf("a range is not a version: %v", err)
	}
}

func TestPublishInvalid(t *testing.T) {
	image := makeImage(t, "redis", "example.test/redis:8")
	image.Digest = "sha256:" + strings.Repeat("0", 64)
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	mirror := strings.TrimPrefix(s.URL, "http://")
	wantCode(t, Publish(t.Context(), mirror, []lab.Image{image}, nil, nil), "registry")
	chart := makeChart(t, "podinfo", "6.9.2")
	chart.Digest = image.Digest
	wantCode(t, Publish(t.Context(), mirror, nil, []lab.Chart{chart}, nil), "registry")
	wantCode(t, Publish(t.Context(), "", nil, nil, nil), "usage")
}
