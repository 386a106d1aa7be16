package render

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"helm.sh/helm/v3/pkg/downloader"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/strict"
)

// TestDependencies renders a chart in Git whose dependencies are not vendored.
func TestDependencies(t *testing.T) {
	const umbrella = "apiVersion: v2\nname: umbrella\nversion: 1.0.0\ndependencies:\n- {name: lamp, version: 1.x, repository: 'https://c.example.com', alias: light}\n"
	chart := fstest.MapFS{}
	for _, name := range []string{"Chart.yaml", "values.yaml", "templates/cm.yaml"} {
		chart[name] = &fstest.MapFile{Data: []byte(lamp[name])}
	}
	var asked []lab.ChartUse
	charts := func(use lab.ChartUse) (lab.ChartFiles, error) {
		asked = append(asked, use)
		if use.Version == "9.x" {
			return lab.ChartFiles{}, errors.New("lab charts pull")
		}
		return lab.ChartFiles{FS: chart, Version: "1.2.0"}, nil
	}
	for _, test := range []struct {
		name  string
		files map[string]string
		want  string
		asked string
	}{
		{"pulled", map[string]string{"web/Chart.yaml": umbrella, "web/values.yaml": "light: {size: 3}\n"}, "{deep: {a: 1, b: 2}, global: {}, size: 3}", "1.x"},
		{"absent", map[string]string{"web/Chart.yaml": strings.Replace(umbrella, "1.x", "9.x", 1)}, "error: web/Chart.yaml: needs its dependencies: chart lamp 9.x is not on this machine: lab charts pull", "9.x"},
		{
			"lock of others",
			map[string]string{"web/Chart.yaml": umbrella, "web/Chart.lock": "dependencies: []\ndigest: sha256:00\ngenerated: 2026-01-01T00:00:00Z\n"},
			"error: web/Chart.lock: is not of the dependencies in Chart.yaml, so that Helm builds none: helm dependency update web", "",
		},
		{"vendored", vendoredLamp("web/charts/lamp", map[string]string{"web/Chart.yaml": umbrella}), "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked = nil
			files := fstest.MapFS{}
			for name, text := range test.files {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
			docs, err := Render(Source{FS: files, Application: "app", Source: appset.Source{Path: "web"}, Charts: charts})
			got := summary(nil, err)
			if err == nil && test.want != "" {
				got = strings.NewReplacer(`"`, "", ":", ": ", ",", ", ").Replace(strict.Text(docs[0].Node, "data", "values"))
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if test.asked == "" && len(asked) > 0 || test.asked != "" && (len(asked) != 1 || asked[0].Version != test.asked) {
				t.Errorf("asked for %+v", asked)
			}
		})
	}
}

// TestLock accepts a Chart.lock that Helm itself has written.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range lamp {
		write("lamp/"+name, text)
	}
	write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n- {name: lamp, version: 1.x, repository: 'file://../lamp', alias: light, condition: light.on, tags: [a], import-values: [b]}\n")
	m := downloader.Manager{ChartPath: filepath.Join(dir, "web"), Out: io.Discard, RepositoryConfig: filepath.Join(dir, "none.yaml"), RepositoryCache: dir}
	if err := m.Update(); err != nil {
		t.Fatal(err)
	}
	fsys := os.DirFS(dir)
	c, err := loadChart(fsys, "web", one(nil))
	if err != nil || c.Lock == nil {
		t.Fatal(err)
	}
	s := Source{FS: fsys, Source: appset.Source{Path: "web"}, Charts: func(lab.ChartUse) (lab.ChartFiles, error) { return lab.ChartFiles{}, errors.New("none") }}
	if err := s.dependencies(c, one(nil)); err != nil {
		t.Error(err)
	}
	c.Metadata.Dependencies[0].Version = "2.x"
	if err := s.dependencies(c, one(nil)); err == nil || !strings.Contains(err.Error(), "Chart.lock") {
		t.Errorf("a lock of another version: %v", err)
	}
}
