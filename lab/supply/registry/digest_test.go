package registry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// A chart whose digest differs from the pin is rejected and not stored, even if name, version and the repository's
// index match.
func TestChartDigestMismatch(t *testing.T) {
	chart := makeChart(t, "podinfo", "6.9.2")
	data, err := os.ReadFile(chart.Archive)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/index.yaml", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "apiVersion: v1\nentries:\n  podinfo:\n  - {name: podinfo, version: 6.9.2, digest: %s, urls: [podinfo.tgz]}\n", strings.TrimPrefix(chart.Digest, "sha256:"))
	})
	mux.HandleFunc("/podinfo.tgz", func(w http.ResponseWriter, _ *http.Request) { w.Write(data) })
	s := httptest.NewServer(mux)
	defer s.Close()
	for digest, want := range map[string]string{chart.Digest: "", "sha256:" + strings.Repeat("0", 64): "does not match lab's pin"} {
		dir := t.TempDir()
		pin := ChartPin{Name: "podinfo", Version: "6.9.2", From: s.URL, Digest: digest}
		r, err := newRegistry(Options{Dir: dir}, Pins{Charts: []ChartPin{pin}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Chart(t.Context(), "podinfo", "6.9.2", nil)
		_, has := r.HasChart(pin)
		if want == "" && (err != nil || !has) || want != "" && (err == nil || !strings.Contains(err.Error(), want) || has) {
			t.Errorf("pinned to %s: %v, kept %t", digest, err, has)
		}
	}
}
