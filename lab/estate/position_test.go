package estate

import (
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"homelab/lab"
)

// A value file that is missing, and a version, are told where an Application names them.
func TestFieldsOfPlainApplications(t *testing.T) {
	base, err := txtar.ParseFile("testdata/base.txtar")
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for _, f := range base.Files {
		files[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	files["addons/sized/applicationset.yaml"] = &fstest.MapFile{Data: []byte(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: sized, namespace: argocd}
spec:
  project: default
  destination: {name: dev, namespace: web}
  syncPolicy: {automated: {}}
  sources:
    - {repoURL: "https://charts.example.com", chart: web,
       targetRevision: 1.0.0}
    - repoURL: http://lab-homelab-forge:3000/lab/estate.git
      path: chart
      helm:
        valueFiles:
          - values.yaml
          - large.yaml
`)}
	files["chart/Chart.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n")}
	files["chart/values.yaml"] = &fstest.MapFile{Data: []byte("a: 1\n")}
	e, err := Load(files, "", "homelab", WithImages(func(string) string { return "" }))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range e.Applications {
		if g.Name != "sized" {
			continue
		}
		if want := (lab.Position{File: "addons/sized/applicationset.yaml", Line: 10, Column: 24}); len(g.Charts) != 1 || g.Charts[0].At != want {
			t.Errorf("charts %+v, want one at %s", g.Charts, want)
		}
		if !strings.HasSuffix(g.LeftOut, "(addons/sized/applicationset.yaml:16)") {
			t.Errorf("left out: %s", g.LeftOut)
		}
		return
	}
	t.Error("it is not there")
}
