package charts_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/supply/charts"
	"homelab/lab/supply/charts/chartstest"
)

func newCache(t *testing.T) charts.Cache {
	return charts.Cache{Dir: filepath.Join(t.TempDir(), "charts")}
}

// TestPull pulls by exact versions, ranges, tags and digests, and opens the result without a request.
func TestPull(t *testing.T) {
	web := chartstest.Repository(t,
		chartstest.ConfigMap("lamp", "1.0.0"), chartstest.ConfigMap("lamp", "1.2.0"), chartstest.ConfigMap("lamp", "2.0.0-rc.1"), chartstest.ConfigMap("lamp", "v0.9.0"), chartstest.ConfigMap("other", "7.0.0"))
	oci := chartstest.Registry(t)
	var digest string
	for _, version := range []string{"1.0.0", "1.2.0", "1.2.0+5", "2.0.0-rc.1"} {
		digest = chartstest.Push(t, oci.Host()+"/team/lamp", chartstest.ConfigMap("lamp", version))
	}
	chartstest.Push(t, oci.Host()+"/team/lamp", chartstest.ConfigMap("lamp", "1.0.0"), "latest")
	for _, test := range []struct{ repository, wanted, version string }{
		{web.URL, "1.0.0", "1.0.0"},
		{web.URL + "/", "1.2.0", "1.2.0"},
		{web.URL, "", "1.2.0"},
		{web.URL, "*", "1.2.0"},
		{web.URL, "1.0.x", "1.0.0"},
		{web.URL, "<1", "v0.9.0"},
		{web.URL, "0.9.0", "v0.9.0"},
		{web.URL, ">=1.0.0-0", "2.0.0-rc.1"},
		{"oci://" + oci.Host() + "/team", "1.0.0", "1.0.0"},
		{oci.Host() + "/team", "1.2.0+5", "1.2.0+5"}, // as in Argo CD's Applications
		{"oci://" + oci.Host() + "/team", "~1.0", "1.0.0"},
		{"oci://" + oci.Host() + "/team", "latest", "1.0.0"},
		{"oci://" + oci.Host() + "/team", digest, "2.0.0-rc.1"},
	} {
		t.Run(test.repository[:4]+" "+test.wanted, func(t *testing.T) {
			c := newCache(t)
			use := lab.ChartUse{Repository: test.repository, Name: "lamp", Version: test.wanted}
			if _, err := c.Files(use); !errors.Is(err, charts.ErrAbsent) {
				t.Fatalf("before: %v", err)
			}
			got, err := c.NewPuller(charts.Options{}).Pull(t.Context(), use)
			if err != nil {
				t.Fatal(err)
			}
			if got.Version != test.version || got.Was != "" {
				t.Errorf("got %+v", got)
			}
			requests := web.Requests.Load() + oci.Requests.Load()
			versions := []string{test.wanted}
			if test.wanted != "latest" && test.wanted != digest { // which say nothing of versions
				versions = append(versions, test.version)
			}
			for _, version := range versions {
				use.Version = version
				files, err := c.Files(use)
				if err != nil {
					t.Fatalf("%s: %v", version, err)
				}
				text, err := fs.ReadFile(files, "Chart.yaml")
				if err != nil || !strings.Contains(string(text), "version: "+test.version+"\n") || files.Version != test.version {
					t.Errorf("%s: %s %s %v", version, files.Version, text, err)
				}
				if (files.Manifest != "") != !strings.HasPrefix(test.repository, "http") {
					t.Errorf("manifest %q", files.Manifest)
				}
			}
			if now := web.Requests.Load() + oci.Requests.Load(); now != requests {
				t.Errorf("reading made %d requests", now-requests)
			}
		})
	}
}

// TestPullFails lists what cannot be pulled, and why.
func TestPullFails(t *testing.T) {
	bomb := func(n int) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(make([]byte, n))
		_ = w.Close()
		return b.String()
	}
	files := map[string]string{
		"/index.yaml": `
apiVersion: v1
entries:
  broken: [{name: broken, version: 1.0.0, urls: [broken.tgz]}]
  bomb: [{name: bomb, version: 1.0.0, urls: [bomb.tgz]}]
  large: [{name: large, version: 1.0.0, urls: [large.tgz]}]
  moved: [{name: moved, version: 1.0.0, urls: [lamp.tgz], digest: "00"}]
  nowhere: [{name: nowhere, version: 1.0.0}]
  local: [{name: local, version: 1.0.0, urls: ["file:///etc/passwd"]}]
  none: [null, {name: none, version: 1.0.0, urls: [none.tgz]}]
  bare: [{name: bare, version: 1.0.0, urls: [bare.tgz]}]
`,
		"/broken.tgz": "no archive", "/bomb.tgz": bomb(65 << 20), "/large.tgz": strings.Repeat("x", 33<<20), "/lamp.tgz": string(chartstest.ConfigMap("lamp", "1.0.0").Archive()),
		"/bare.tgz": string(chartstest.Chart{Name: "bare", Files: map[string]string{"Chart.yaml": "name: bare\n"}}.Archive()), "/not/index.yaml": "a: [",
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if files[r.URL.Path] == "" {
			http.Error(w, "gone", http.StatusNotFound)
			return
		}
		fmt.Fprint(w, files[r.URL.Path])
	}))
	t.Cleanup(web.Close)
	oci := chartstest.Registry(t)
	chartstest.Push(t, oci.Host()+"/lamp", chartstest.ConfigMap("lamp", "1.0.0"))
	for _, test := range []struct{ repository, name, version, want string }{
		{web.URL, "broken", "1.0.0", "its archive is not a chart"},
		{web.URL, "bomb", "1.0.0", "more than 64 MiB when unpacked"},
		{web.URL, "large", "1.0.0", "more than 33554432 bytes"},
		{web.URL, "moved", "1.0.0", "where index.yaml has 00"},
		{web.URL, "nowhere", "1.0.0", "index.yaml has no address of it"},
		{web.URL, "local", "1.0.0", "which is not https"},
		{web.URL, "none", "1.0.0", "/none.tgz: 404 Not Found"},
		{web.URL, "bare", "1.0.0", "Chart.yaml has no version"},
		{web.URL, "broken", "2.x", "no such version, the newest is 1.0.0"},
		{web.URL, "lamp", "1.0.0", "index.yaml has no such chart"},
		{web.URL + "/not", "lamp", "1.0.0", "yaml"},
		{web.URL + "/none", "lamp", "1.0.0", "/none/index.yaml: 404 Not Found"},
		{"oci://" + oci.Host(), "lamp", "3.0.0", "MANIFEST_UNKNOWN"},
		{"oci://" + oci.Host(), "lamp", "^3", "no such version, the newest is 1.0.0"},
		{"oci://" + oci.Host(), "Not A Name", "1.0.0", "repository can only contain"},
		{"s3://bucket", "lamp", "1.0.0", "lab does not pull from s3://"},
		{"https://user:secret@127.0.0.1:1", "lamp", "1.0.0", "lamp 1.0.0 of https://user:xxxxx@127.0.0.1:1"},
	} {
		c := newCache(t)
		_, err := c.NewPuller(charts.Options{}).Pull(t.Context(), lab.ChartUse{Repository: test.repository, Name: test.name, Version: test.version})
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s %s: %v, want %s", test.name, test.version, err, test.want)
		}
		if _, err := os.Stat(c.Dir); err == nil {
			t.Errorf("%s %s: something was written", test.name, test.version)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newCache(t).NewPuller(charts.Options{}).Pull(ctx, lab.ChartUse{Repository: web.URL, Name: "broken"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestChanged pulls a version whose archive has changed.
func TestChanged(t *testing.T) {
	c := newCache(t)
	before := chartstest.ConfigMap("lamp", "1.0.0")
	oci := chartstest.Registry(t)
	use := lab.ChartUse{Repository: "oci://" + oci.Host(), Name: "lamp", Version: "1.0.0"}
	chartstest.Push(t, oci.Host()+"/lamp", before)
	first, err := c.NewPuller(charts.Options{}).Pull(t.Context(), use)
	if err != nil {
		t.Fatal(err)
	}
	after := chartstest.ConfigMap("lamp", "1.0.0")
	after.Files["values.yaml"] = "size: 2\n"
	chartstest.Push(t, oci.Host()+"/lamp", after)
	use.Version = "1.x"
	second, err := c.NewPuller(charts.Options{}).Pull(t.Context(), use)
	if err != nil || second.Was != first.Digest || second.Digest == first.Digest {
		t.Errorf("%+v after %+v, %v", second, first, err)
	}
	use.Version = "1.0.0"
	files, err := c.Files(use)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := fs.ReadFile(files, "values.yaml"); string(text) != "size: 2\n" {
		t.Errorf("%s, %v", text, err)
	}
}

// TestDamaged refuses charts that changed since they were pulled.
func TestDamaged(t *testing.T) {
	c := newCache(t)
	web := chartstest.Repository(t, chartstest.ConfigMap("lamp", "1.0.0"))
	use := lab.ChartUse{Repository: web.URL, Name: "lamp", Version: "1.0.0"}
	if _, err := c.NewPuller(charts.Options{}).Pull(t.Context(), use); err != nil {
		t.Fatal(err)
	}
	archives, _ := filepath.Glob(filepath.Join(c.Dir, "*.tgz"))
	if len(archives) != 1 {
		t.Fatalf("%d archives", len(archives))
	}
	if err := os.WriteFile(archives[0], chartstest.ConfigMap("lamp", "6.6.6").Archive(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Files(use); !errors.Is(err, charts.ErrAbsent) {
		t.Errorf("got %v", err)
	}
}

// TestMirror pulls charts of both kinds of repository from a mirror alone.
func TestMirror(t *testing.T) {
	mirror := chartstest.Registry(t)
	chartstest.Push(t, mirror.Host()+"/copies/charts.example.com/stable/lamp", chartstest.ConfigMap("lamp", "1.0.0"))
	chartstest.Push(t, mirror.Host()+"/copies/registry.example.com/team/lamp", chartstest.ConfigMap("lamp", "1.0.0"))
	p := newCache(t).NewPuller(charts.Options{Mirror: mirror.Host() + "/copies"})
	for _, url := range []string{"https://charts.example.com/stable", "oci://registry.example.com/team"} {
		if _, err := p.Pull(t.Context(), lab.ChartUse{Repository: url, Name: "lamp", Version: "1.x"}); err != nil {
			t.Error(err)
		}
	}
}

// TestCredentials sends those of docker login only if asked.
func TestCredentials(t *testing.T) {
	var sent []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a := r.Header.Get("Authorization"); a != "" {
			sent = append(sent, a)
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
		http.Error(w, "who is it", http.StatusUnauthorized)
	}))
	t.Cleanup(web.Close)
	host := strings.TrimPrefix(web.URL, "http://")
	config := t.TempDir()
	t.Setenv("DOCKER_CONFIG", config)
	auth := base64.StdEncoding.EncodeToString([]byte("ann:secret"))
	if err := os.WriteFile(filepath.Join(config, "config.json"), []byte(fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host, auth)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, asked := range []bool{false, true} {
		sent = nil
		for _, url := range []string{web.URL, "oci://" + host} {
			if _, err := newCache(t).NewPuller(charts.Options{Credentials: asked}).Pull(t.Context(), lab.ChartUse{Repository: url, Name: "lamp", Version: "1.0.0"}); err == nil {
				t.Error("pulled without a login")
			}
		}
		if (len(sent) > 0) != asked {
			t.Errorf("asked: %t, sent %q", asked, sent)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(chartstest.ConfigMap("lamp", "1.0.0").Archive())
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, archive []byte) {
		files, err := charts.Unpack(archive)
		if err != nil {
			return
		}
		_ = fs.WalkDir(files, ".", func(name string, _ fs.DirEntry, _ error) error {
			if !fs.ValidPath(name) {
				t.Errorf("%q", name)
			}
			return nil
		})
	})
}

func FuzzNewest(f *testing.F) {
	f.Add("1.x", "1.0.0 1.2.0+5 v2.0.0-rc.1 latest")
	f.Add("", "1.0.0")
	f.Fuzz(func(t *testing.T, wanted, versions string) {
		list := strings.Fields(versions)
		got, ok := charts.Newest(wanted, list)
		found := false
		for _, v := range list {
			found = found || v == got
		}
		if ok != found && (ok || wanted != "" && got != "") {
			t.Errorf("%q of %q: %q", wanted, list, got)
		}
	})
}
