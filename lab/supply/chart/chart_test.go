package chart

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"

	"homelab/lab"
	"homelab/lab/upstream"
)

// cached returns the folders of a recipe's modules.
func cached(t *testing.T, r Recipe) Sources {
	t.Helper()
	src := Sources{}
	for _, module := range append([]string{r.Module}, r.Parts...) {
		src[module] = upstream.Dir(t, module)
	}
	return src
}

func build(t *testing.T, r Recipe, src Sources) (*helmchart.Chart, lab.Chart) {
	t.Helper()
	got, err := Build(context.Background(), r, src, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c, err := loader.LoadFile(got.Archive)
	if err != nil {
		t.Fatal(err)
	}
	return c, got
}

// render returns the objects of a chart as release argocd in namespace argocd, by kind/name.
func render(t *testing.T, c *helmchart.Chart, values string) map[string]map[string]any {
	t.Helper()
	objects, err := tryRender(c, values)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func tryRender(c *helmchart.Chart, values string) (map[string]map[string]any, error) {
	v, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		return nil, err
	}
	opts := chartutil.ReleaseOptions{Name: "argocd", Namespace: "argocd", IsInstall: true}
	top, err := chartutil.ToRenderValues(c, v, opts, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, top)
	if err != nil {
		return nil, err
	}
	objects := map[string]map[string]any{}
	for name, text := range files {
		if strings.HasSuffix(name, ".txt") {
			continue
		}
		for dec := yaml.NewDecoder(strings.NewReader(text)); ; {
			var doc map[string]any
			if err := dec.Decode(&doc); err != nil {
				if err.Error() == "EOF" {
					break
				}
				return nil, &lab.Error{Message: name + "\n" + text, Err: err}
			}
			if doc != nil {
				objects[doc["kind"].(string)+"/"+nameOf(doc)] = doc
			}
		}
	}
	return objects, nil
}

func lintChart(t *testing.T, archive string) {
	t.Helper()
	dir := t.TempDir()
	if err := chartutil.ExpandFile(dir, archive); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	for _, m := range lint.All(filepath.Join(dir, entries[0].Name()), nil, "argocd", true).Messages {
		if m.Severity >= support.WarningSev {
			t.Errorf("lint: %s", m)
		}
	}
}

func TestRealCharts(t *testing.T) {
	recipes, err := Recipes()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recipes {
		t.Run(r.Name+"-"+r.Version, func(t *testing.T) {
			src := cached(t, r)
			c, got := build(t, r, src)
			_, again := build(t, r, src)
			if got.Digest != again.Digest {
				t.Errorf("two builds differ: %s and %s", got.Digest, again.Digest)
			}
			if c.Metadata.Version != r.Version || got.Origin != lab.OriginSource {
				t.Errorf("got %s from %s", c.Metadata.Version, got.Origin)
			}
			if len(render(t, c, "{}")) < 3 {
				t.Error("renders hardly anything")
			}
			if r.Kind != KindFolder {
				lintChart(t, got.Archive)
			}
			if out := os.Getenv("LAB_CHARTS_OUT"); out != "" {
				if _, err := Build(t.Context(), r, src, out); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
