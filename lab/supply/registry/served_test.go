package registry

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"homelab/lab"
)

func TestServed(t *testing.T) {
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	push(t, host+"/argoproj/argocd:v3.6.1", makeImage(t, "argocd", "quay.io/argoproj/argocd:v3.6.1"))
	tags, err := Tags(t.Context(), host+"/argoproj/argocd")
	if err != nil || !slices.Equal(tags, []string{"v3.6.1"}) {
		t.Errorf("tags %q, %v", tags, err)
	}
	if d, err := Digest(t.Context(), host+"/argoproj/argocd:v3.6.1"); err != nil || !strings.HasPrefix(d, "sha256:") {
		t.Errorf("digest %q, %v", d, err)
	}
	if _, err := Digest(t.Context(), host+"/argoproj/argocd:v3.6.2"); err == nil {
		t.Error("a digest of a tag that is not served")
	}
	if _, err := Tags(t.Context(), host+"/x"); err == nil {
		t.Error("tags of a repository that is not served")
	}
}

func TestServedCharts(t *testing.T) {
	hex := strings.Repeat("ab", 32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "apiVersion: v1\nentries:\n  podinfo:\n  - {name: podinfo, version: 6.9.2, digest: %s}\n  - {name: podinfo, version: 6.9.3}\n", hex)
	}))
	defer s.Close()
	versions, err := ChartVersions(t.Context(), s.URL, "podinfo")
	if err != nil || !slices.Equal(versions, []string{"6.9.2", "6.9.3"}) {
		t.Errorf("%q, %v", versions, err)
	}
	if d, err := ChartDigest(t.Context(), ChartPin{Name: "podinfo", Version: "6.9.2", From: s.URL}); err != nil || d != "sha256:"+hex {
		t.Errorf("%q, %v", d, err)
	}
	if _, err := ChartDigest(t.Context(), ChartPin{Name: "podinfo", Version: "6.9.3", From: s.URL}); err == nil {
		t.Error("a digest that the index does not have")
	}
	if _, err := ChartVersions(t.Context(), s.URL, "other"); err == nil {
		t.Error("versions of a chart that the index does not have")
	}
}

// A registry's charts are pinned by the digest of their archives.
func TestServedOCICharts(t *testing.T) {
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	chart := makeChart(t, "podinfo", "6.9.2+x")
	if err := Publish(t.Context(), host, nil, []lab.Chart{chart}, func(string) {}); err != nil {
		t.Fatal(err)
	}
	versions, err := ChartVersions(t.Context(), "oci://"+host+"/charts", "podinfo")
	if err != nil || !slices.Equal(versions, []string{"6.9.2+x"}) {
		t.Errorf("%q, %v", versions, err)
	}
	if d, err := ChartDigest(t.Context(), ChartPin{Name: "podinfo", Version: "6.9.2+x", From: "oci://" + host + "/charts"}); err != nil || d != chart.Digest {
		t.Errorf("%s, %v, want %s", d, err, chart.Digest)
	}
}
