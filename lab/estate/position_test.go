package estate

import (
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"homelab/lab"
)

// A value file that is missing, and a version, are reported where an Application names them.
func TestFieldsOfPlainApplications(t *testing.T) {
	dir, fsys := build(t, &txtar.Archive{Files: []txtar.File{{Name: "addons/sized/applicationset.yaml", Data: []byte(`apiVersion: argoproj.io/v1alpha1
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
`)}, {Name: "chart/Chart.yaml", Data: []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n")}, {Name: "chart/values.yaml", Data: []byte("a: 1\n")}}})
	e, err := Load(fsys, dir, "homelab", WithImages(func(string) string { return "" }))
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
