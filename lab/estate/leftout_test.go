package estate

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"homelab/lab"
	"homelab/lab/needs"
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
	if got := needs.Others(e); len(got) != 2 || got[0] != "ghcr.io/kro-run/kro" || got[1] != "https://git.example.com/more.git" {
		t.Errorf("others %q", got)
	}
	if ps := needs.Mark(e, nil); len(ps) > 0 {
		t.Errorf("all reachable, but %v", ps)
	}
	ps := needs.Mark(e, map[string]error{"ghcr.io/kro-run/kro": errors.New("ghcr.io does not answer")})
	if want := "addons/kro/applicationset.yaml:7:22: ghcr.io/kro-run/kro is unavailable: ghcr.io does not answer: needed by dev-kro"; len(ps) != 1 || ps[0].String() != want {
		t.Errorf("%v, want %s", ps, want)
	}
	for _, a := range e.Applications {
		if (a.LeftOut != "") != (a.Name == "dev-kro") {
			t.Errorf("%s is left out: %q", a.Name, a.LeftOut)
		}
	}
	// A mounted repository under an address that its mirror lacks.
	e.Repositories = []lab.Repository{{URL: "git@git.example.com:more.git", Dir: "../more"}}
	ps = needs.Mark(e, map[string]error{"https://git.example.com/more.git": errors.New("no key")})
	if len(ps) != 1 || !strings.Contains(ps[0].String(), "no key; the mirror of ../more is served as https://git.example.com/more: needed by") {
		t.Errorf("%v", ps)
	}
}

// An Application without a set needs a repository once, and lab's charts have no other repository.
func TestPlainApplicationSources(t *testing.T) {
	const files = `
-- clusters/dev/cluster.yaml --
apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: dev}
spec: {role: spoke, environment: dev, addons: {podinfo: true}}
-- addons/twice/applicationset.yaml --
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: twice}
spec:
  project: default
  destination: {name: dev, namespace: twice}
  sources:
    - {repoURL: https://git.example.com/more.git, path: a, targetRevision: main}
    - {repoURL: https://git.example.com/more.git, path: b, targetRevision: main}
    - {repoURL: http://lab-homelab-forge:3000/api/packages/lab/helm, chart: podinfo, targetRevision: 9.9.9}
  syncPolicy: {automated: {}}
`
	dir, fsys := build(t, txtar.Parse([]byte(files)))
	e, err := Load(fsys, dir, "homelab")
	if err != nil {
		t.Fatal(errors.Unwrap(err))
	}
	i := slices.IndexFunc(e.Applications, func(g lab.Generated) bool { return g.Name == "twice" })
	if i < 0 {
		t.Fatalf("%+v", e.Applications)
	}
	if g := e.Applications[i]; !slices.Equal(g.Others, []string{"https://git.example.com/more.git"}) || len(g.Charts) != 1 || g.Charts[0].Repository != "" {
		t.Errorf("%q, %+v", g.Others, g.Charts)
	}
	_, err = Load(fsys, dir, "homelab", WithCharts(func(c lab.ChartUse) bool { return c.Version != "9.9.9" }))
	if err == nil || !strings.Contains(errors.Unwrap(err).Error(), "9.9.9") {
		t.Errorf("unknown version: %v", err)
	}
}

func TestOwnEngineLeftOut(t *testing.T) {
	const app = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: NAME, namespace: argocd}
spec:
  project: default
  source: SOURCE
  destination: {DESTINATION, namespace: argocd}
  syncPolicy: {automated: {}}
---
`
	const own = "{repoURL: http://lab-homelab-forge:3000/lab/estate.git, targetRevision: main, path: charts/argocd}"
	const upstream = "{repoURL: https://argoproj.github.io/argo-helm, chart: argo-cd, targetRevision: 8.0.0}"
	files := "-- charts/argocd/Chart.yaml --\napiVersion: v2\nname: argocd\nversion: 1.0.0\ndependencies: [{name: argo-cd, version: 8.0.0, repository: https://argoproj.github.io/argo-helm}]\n" +
		"-- addons/engines/applicationset.yaml --\n"
	for _, a := range [][3]string{
		{"upstream", upstream, "server: https://kubernetes.default.svc"}, {"umbrella", own, "name: hub"}, {"elsewhere", upstream, "name: dev"},
	} {
		files += strings.NewReplacer("NAME", a[0], "SOURCE", a[1], "DESTINATION", a[2]).Replace(app)
	}
	dir, fsys := build(t, txtar.Parse([]byte(files)))
	e, err := Load(fsys, dir, "homelab")
	if err != nil {
		t.Fatal(errors.Unwrap(err))
	}
	for _, a := range e.Applications {
		if got, want := strings.Contains(a.LeftOut, "replace the lab's engine"), a.Name == "upstream" || a.Name == "umbrella"; got != want {
			t.Errorf("%s is left out: %q", a.Name, a.LeftOut)
		}
	}
	i := slices.IndexFunc(e.Applications, func(a lab.Generated) bool { return a.Name == "umbrella" })
	if i >= 0 && !slices.Equal(e.Applications[i].Others, []string{"https://argoproj.github.io/argo-helm"}) {
		t.Errorf("umbrella needs %q", e.Applications[i].Others)
	}
	if len(e.Applications) != 4 || len(e.Notes) < 2 {
		t.Errorf("%+v, notes %v", e.Applications, e.Notes)
	}
}

// Config management plugins are sidecars of the engine; lab installs none.
func TestPluginLeftOut(t *testing.T) {
	text := strings.NewReplacer("project: theirs", "project: shops", ", {project: absent}", "",
		"path: addons/shop/web, targetRevision: HEAD}", "path: addons/shop/web, targetRevision: HEAD, plugin: {name: own}}").Replace(projectEstate)
	e, err := Load(archived(t, text), "", "test")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Applications) < 3 {
		t.Errorf("applications: %+v", e.Applications)
	}
	for _, a := range e.Applications {
		if a.LeftOut != "rendered by a plugin, which the lab's engine does not have" {
			t.Errorf("%s: %q", a.Name, a.LeftOut)
		}
	}
}

// Argo CD syncs no object of a root or an Application with a kind that its cluster does not serve. In the estate's own files, that is a doubt: somebody may define it.
func TestUnservedKinds(t *testing.T) {
	const app = `-- FILE --
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: NAME, namespace: argocd}
spec:
  project: default
  source: {repoURL: http://lab-homelab-forge:3000/lab/estate.git, targetRevision: main, path: PATH}
  destination: {server: https://kubernetes.default.svc, namespace: argocd}
  syncPolicy: {automated: {}}
`
	const foreign = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x}\n"
	at := func(file, name, path string) string {
		return strings.NewReplacer("FILE", file, "NAME", name, "PATH", path).Replace(app)
	}
	nested := at("addons/apps/applicationset.yaml", "above", "nested") + at("nested/below.yaml", "below", "web") + "-- nested/thing.yaml --\n" + foreign + "-- web/cm.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
	for files, want := range map[string]string{
		nested: "above in doubt: nothing defines Thing of example.com/v1 on hub; below in doubt: ",
		nested + "-- addons/thing/applicationset.yaml --\n" + foreign: "above in doubt: below the root, which cannot be synced; below in doubt: ",
		nested + "-- addons/thing/applicationset.yaml --\n" + strings.Replace(foreign, "name: x", `name: x, annotations: {argocd.argoproj.io/sync-options: SkipDryRunOnMissingResource=true}`, 1): "above in doubt: nothing defines Thing of example.com/v1 on hub; below in doubt: ",
	} {
		dir, fsys := build(t, txtar.Parse([]byte(files)))
		e, err := Load(fsys, dir, "homelab", WithImages(func(string) string { return "" }))
		if err != nil {
			t.Fatal(errors.Unwrap(err))
		}
		needs.Mark(e, nil)
		var got []string
		for _, a := range e.Applications {
			if a.Name == "above" || a.Name == "below" {
				got = append(got, a.Name+a.LeftOut+" in doubt: "+a.Doubt)
			}
		}
		slices.Sort(got)
		if got := strings.Join(got, "; "); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
