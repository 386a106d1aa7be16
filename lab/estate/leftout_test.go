package estate

import (
	"errors"
	"testing"

	"golang.org/x/tools/txtar"
)

func TestLeaveOut(t *testing.T) {
	const files = `
-- clusters/dev/cluster.yaml --
apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: dev}
spec: {role: spoke, environment: dev, addons: {podinfo: true, kro: true}}
-- addons/kro/applicationset.yaml --
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: kro}
spec:
  generators: [{clusters: {selector: {matchLabels: {enable_kro: "true"}}}}]
  template:
    metadata: {name: '{{name}}-kro'}
    spec:
      project: default
      destination: {name: '{{name}}'}
      sources:
        - {repoURL: '{{metadata.annotations.addons_repo_url}}', targetRevision: main, ref: values}
        - {repoURL: ghcr.io/kro-run/kro, chart: kro, targetRevision: 0.2.1}
        - {repoURL: https://git.example.com/more.git, path: x, targetRevision: main}
      syncPolicy: {automated: {}}
`
	dir, fsys := build(t, txtar.Parse([]byte(files)))
	e, err := Load(fsys, dir, "homelab")
	if err != nil {
		t.Fatal(errors.Unwrap(err))
	}
	if got := Others(e); len(got) != 2 || got[0] != "ghcr.io/kro-run/kro" || got[1] != "https://git.example.com/more.git" {
		t.Errorf("others %q", got)
	}
	if ps := LeaveOut(e, nil); len(ps) > 0 {
		t.Errorf("all can be had, and %v", ps)
	}
	ps := LeaveOut(e, map[string]error{"ghcr.io/kro-run/kro": errors.New("ghcr.io does not answer")})
	if want := "addons/kro/applicationset.yaml:7:22: ghcr.io/kro-run/kro cannot be had: ghcr.io does not answer: needed by dev-kro"; len(ps) != 1 || ps[0].String() != want {
		t.Errorf("%v, want %s", ps, want)
	}
	for _, a := range e.Applications {
		if (a.LeftOut != "") != (a.Name == "dev-kro") {
			t.Errorf("%s is left out: %q", a.Name, a.LeftOut)
		}
	}
}
