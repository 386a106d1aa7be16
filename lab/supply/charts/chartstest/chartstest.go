// Package chartstest serves charts to tests, from a chart repository and from a registry.
package chartstest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
)

// Chart is a chart with its files besides Chart.yaml.
type Chart struct {
	Name, Version string
	Files         map[string]string
}

// ConfigMap returns a chart with a ConfigMap that has the value size, which is 1 by default.
func ConfigMap(name, version string) Chart {
	return Chart{Name: name, Version: version, Files: map[string]string{
		"values.yaml":       "size: 1\n",
		"templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}, labels: {chart: {{ .Chart.Name }}-{{ .Chart.Version | replace \"+\" \"_\" }}}}\ndata: {size: {{ .Values.size | quote }}}\n",
	}}
}

// Archive packs a chart.
func (c Chart) Archive() []byte {
	files := maps.Clone(c.Files)
	if files == nil {
		files = map[string]string{}
	}
	if files["Chart.yaml"] == "" {
		files["Chart.yaml"] = fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\n", c.Name, c.Version)
	}
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	w := tar.NewWriter(zipped)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		_ = w.WriteHeader(&tar.Header{Name: c.Name + "/" + file, Size: int64(len(files[file])), Mode: 0o644}) // of a buffer, like the others
		_, _ = io.WriteString(w, files[file])
	}
	_ = w.Close()
	_ = zipped.Close()
	return b.Bytes()
}

// Server is a chart repository, or a registry.
type Server struct {
	URL      string
	Requests atomic.Int64
}

// Host returns the address of a registry.
func (s *Server) Host() string { return strings.TrimPrefix(s.URL, "http://") }

func serve(t testing.TB, h http.Handler) *Server {
	s := new(Server)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Requests.Add(1)
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	s.URL = web.URL
	return s
}

// Repository serves an index of charts, and their archives.
func Repository(t testing.TB, charts ...Chart) *Server {
	files := map[string][]byte{}
	entries := map[string][]string{}
	for _, c := range charts {
		file := c.Name + "-" + c.Version + ".tgz"
		files["/"+file] = c.Archive()
		entries[c.Name] = append(entries[c.Name], fmt.Sprintf("  - {apiVersion: v2, name: %s, version: %q, urls: [%q]}\n", c.Name, c.Version, file))
	}
	var index strings.Builder
	index.WriteString("apiVersion: v1\nentries:\n")
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		index.WriteString("  " + name + ":\n" + strings.Join(entries[name], ""))
	}
	files["/index.yaml"] = []byte(index.String())
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(data)
	}))
}

// Registry serves a registry without content.
func Registry(t testing.TB) *Server {
	return serve(t, registry.New(registry.Logger(log.New(io.Discard, "", 0))))
}

// Push pushes a chart to a repository of a registry, and returns the digest of its manifest.
func Push(t testing.TB, repository string, c Chart, tags ...string) string {
	t.Helper()
	layer := static.NewLayer(c.Archive(), "application/vnd.cncf.helm.chart.content.v1.tar+gzip")
	img, err := mutate.Append(mutate.ConfigMediaType(empty.Image, "application/vnd.cncf.helm.config.v1+json"), mutate.Addendum{Layer: layer})
	if err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if len(tags) == 0 {
		tags = []string{strings.ReplaceAll(c.Version, "+", "_")}
	}
	for _, tag := range tags {
		ref, err := name.NewTag(repository + ":" + tag)
		if err == nil {
			err = remote.Write(ref, v1.Image(img))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return digest.String()
}
