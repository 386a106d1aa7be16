package render

import (
	"slices"
	"testing"
	"testing/fstest"

	"homelab/lab/appset"
)

func TestFetches(t *testing.T) {
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"umbrella/Chart.yaml": `
apiVersion: v2
name: umbrella
version: 1.0.0
dependencies:
  - {name: prometheus, version: 1.0.0, repository: "https://charts.example.com"}
  - {name: kro, version: 1.0.0, repository: "oci://ghcr.io/kro-run"}
  - {name: here, version: 1.0.0, repository: "https://elsewhere.example.com"}
  - {name: beside, version: 1.0.0, repository: "file://../beside"}
  - {name: known, version: 1.0.0, repository: "@alias"}
`,
		"umbrella/charts/here/Chart.yaml": "apiVersion: v2\nname: here\nversion: 1.0.0\n",
		"top/kustomization.yaml":          "resources: [../base, https://raw.example.com/crds.yaml]\n",
		"base/kustomization.yaml":         "resources: [\"git::https://git.example.com/org/repo//sets?ref=v1\", cm.yaml]\npatches: [{path: https://raw.example.com/patch.yaml}]\nhelmCharts: [{name: x, repo: https://charts.example.com}, {name: y, repo: https://more.example.com}, {name: local}]\n",
		"base/cm.yaml":                    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
		"plain/cm.yaml":                   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
		"broken/Chart.yaml":               "a: [\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	values := appset.Source{Path: "broken", Helm: &appset.Helm{ValueFiles: []string{"values.yaml", "https://raw.example.com/values.yaml"}}}
	if got := Fetches(Source{FS: files, Source: values}); !slices.Equal(got, []string{"https://raw.example.com/values.yaml"}) {
		t.Errorf("value files: %q", got)
	}
	for dir, want := range map[string][]string{
		"umbrella": {"https://charts.example.com", "oci://ghcr.io/kro-run"},
		"top": {
			"https://git.example.com/org/repo//sets?ref=v1", "https://raw.example.com/patch.yaml", "https://charts.example.com", "https://more.example.com", "https://raw.example.com/crds.yaml",
		},
		"plain": nil, "broken": nil, "../out": nil, "none": nil,
	} {
		if got := Fetches(Source{FS: files, Source: appset.Source{Path: dir}}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", dir, got, want)
		}
	}
}
