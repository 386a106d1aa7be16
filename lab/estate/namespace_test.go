package estate

import (
	"errors"
	"testing"

	"golang.org/x/tools/txtar"
)

// A namespace that cannot exist stops only what would be in it.
func TestNamespaceOfDestination(t *testing.T) {
	const files = `
-- clusters/dev/cluster.yaml --
apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: dev}
spec: {role: spoke, environment: dev, addons: {podinfo: true}}
-- own/named/all.yaml --
apiVersion: v1
kind: Namespace
metadata: {name: web}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: web}
-- own/unnamed/all.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
-- addons/theirs/applicationset.yaml --
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: theirs}
spec:
  generators: [{list: {elements: [{app: named}, {app: unnamed}]}}]
  template:
    metadata: {name: '{{app}}'}
    spec:
      project: default
      source: {repoURL: http://lab-homelab-forge:3000/lab/estate.git, targetRevision: main, path: 'own/{{app}}'}
      destination: {name: dev, namespace: '*'}
      syncPolicy: {automated: {}}
`
	dir, fsys := build(t, txtar.Parse([]byte(files)))
	e, err := Load(fsys, dir, "homelab", WithImages(func(string) string { return "" }))
	if err != nil {
		t.Fatal(errors.Unwrap(err))
	}
	for _, g := range e.Applications {
		want, known := map[string]string{"named": "", "unnamed": `ConfigMap web is in that of its destination: there can be no namespace "*"`}[g.Name]
		if known && g.LeftOut != want {
			t.Errorf("%s is left out: %q, want %q", g.Name, g.LeftOut, want)
		}
	}
}
