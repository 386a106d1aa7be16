package estate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"homelab/lab"
	"homelab/lab/needs"
	"homelab/lab/strict"
	"homelab/lab/supply/charts"
	"homelab/lab/supply/charts/chartstest"
)

// applicationOf returns an Application of a chart, or of a folder of the estate.
func applicationOf(name, source, destination string) string {
	return fmt.Sprintf("---\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: %s, namespace: argocd}\nspec:\n  project: default\n  source: {%s}\n"+
		"  destination: {%s}\n  syncPolicy: {automated: {}, syncOptions: [CreateNamespace=true]}\n", name, source, destination)
}

const onHub = "server: https://kubernetes.default.svc, namespace: argocd"

// appsOfCharts are charts that lead to one another: apps in a chart repository, then inner in a registry, then leaf.
func appsOfCharts(t *testing.T, cache charts.Cache) (repository, registry string) {
	t.Helper()
	of := func(name string, templates ...string) chartstest.Chart {
		return chartstest.Chart{Name: name, Version: "1.0.0", Files: map[string]string{
			"values.yaml": "team: nobody\ninner: {repository: none, chart: inner}\n", "templates/all.yaml": strings.Join(templates, ""),
		}}
	}
	server := chartstest.Registry(t)
	leaf := chartstest.ConfigMap("leaf", "1.0.0")
	inner := of("inner", applicationOf("leaf", "repoURL: {{ .Values.inner.repository }}, chart: leaf, targetRevision: 1.0.0", "name: dev, namespace: leaf"))
	for _, c := range []chartstest.Chart{leaf, inner} {
		chartstest.Push(t, server.Host()+"/team/"+c.Name, c)
	}
	apps := of(
		"apps",
		"apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: {{ .Values.team }}, namespace: argocd}\nspec: {sourceRepos: ['*'], destinations: [{server: '*', namespace: '*'}], clusterResourceWhitelist: [{group: '*', kind: '*'}]}\n",
		applicationOf("{{ .Values.team }}-inner", "repoURL: {{ .Values.inner.repository }}, chart: {{ .Values.inner.chart }}, targetRevision: 1.0.0, helm: {valuesObject: {inner: {repository: {{ .Values.inner.repository }}}}}", onHub),
		applicationOf("refused", "repoURL: 5, chart: leaf", onHub),
		"---\napiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: {{ .Values.team }}-sets, namespace: argocd}\nspec:\n  goTemplate: true\n  generators: [{clusters: {selector: {matchLabels: {environment: dev}}}}]\n",
		"  template:\n    metadata: {name: 'set-{{ `{{.name}}` }}'}\n    spec:\n      project: {{ .Values.team }}\n      source: {repoURL: {{ .Values.inner.repository }}, chart: leaf, targetRevision: 1.0.0}\n",
		"      destination: {name: '{{ `{{.name}}` }}', namespace: set}\n      syncPolicy: {automated: {}, syncOptions: [CreateNamespace=true]}\n",
	)
	broken := of("broken", "kind: Application of argoproj.io\nname: {{ fail \"no team\" }}\n")
	repository = chartstest.Repository(t, apps, broken).URL
	registry = server.Host() + "/team"
	puller := cache.NewPuller(charts.Options{})
	for _, use := range []lab.ChartUse{
		{Name: "apps", Version: "1.0.0", Repository: repository},
		{Name: "broken", Version: "1.0.0", Repository: repository},
		{Name: "inner", Version: "1.0.0", Repository: registry},
		{Name: "leaf", Version: "1.0.0", Repository: registry},
	} {
		if _, err := puller.Pull(t.Context(), use); err != nil {
			t.Fatal(err)
		}
	}
	return repository, registry
}

// Argo CD's objects in charts of chart repositories are followed, into further charts. What cannot be read is said to be unknown.
func TestAppsOfCharts(t *testing.T) {
	cache := charts.Cache{Dir: t.TempDir()}
	repository, registry := appsOfCharts(t, cache)
	read := func(options []Option, apps ...string) (*lab.Estate, string) {
		t.Helper()
		dir, fsys := build(t, txtar.Parse([]byte("-- clusters/dev/cluster.yaml --\napiVersion: lab/v1alpha1\nkind: Cluster\nmetadata: {name: dev}\nspec: {role: spoke, environment: dev, addons: {podinfo: true}}\n"+
			"-- addons/theirs/applicationset.yaml --\n"+strings.Join(apps, ""))))
		e, err := Load(fsys, dir, "homelab", options...)
		if err != nil {
			t.Fatal(errors.Unwrap(err))
		}
		var notes []string
		for _, n := range e.Notes {
			notes = append(notes, n.String())
		}
		return e, strings.ReplaceAll(strings.Join(notes, "\n"), repository, "https://charts.example.com")
	}
	app := func(e *lab.Estate, name string) lab.Generated {
		t.Helper()
		i := slices.IndexFunc(e.Applications, func(g lab.Generated) bool { return g.Name == name })
		if i < 0 {
			t.Fatalf("no application %s", name)
		}
		return e.Applications[i]
	}
	values := func(chart string) string {
		return fmt.Sprintf("helm: {valuesObject: {team: blue, inner: {repository: '%s', chart: %s}}}", registry, chart)
	}
	chart := func(name, options string) string {
		return fmt.Sprintf("repoURL: '%s', chart: %s, targetRevision: 1.0.0, %s", repository, name, options)
	}
	e, notes := read(judging(cache), applicationOf("apps", chart("apps", values("inner")), onHub))
	for name, at := range map[string]string{"blue-inner": "apps-1.0.0/templates/all.yaml:", "leaf": "inner-1.0.0/templates/all.yaml:", "set-dev": "apps-1.0.0/templates/all.yaml:"} {
		g := app(e, name)
		if !strings.HasPrefix(g.At.String(), at) || g.LeftOut != "" || g.Doubt != "" || !g.Mounted {
			t.Errorf("%s at %s: left out %q, doubt %q", name, g.At, g.LeftOut, g.Doubt)
		}
	}
	if g := app(e, "leaf"); g.Cluster != "dev" || g.Namespace != "leaf" || len(g.Charts) != 1 || g.Charts[0].Repository != registry {
		t.Errorf("%+v", g)
	}
	if !app(e, "apps").Leads || !app(e, "blue-inner").Leads || app(e, "leaf").Leads {
		t.Error("what leads to others is not known")
	}
	if g := app(e, "refused"); !strings.HasPrefix(g.LeftOut, "the API server rejects it: ") {
		t.Errorf("refused: %q", g.LeftOut)
	}
	if strings.Contains(notes, "unknown") {
		t.Error(notes)
	}

	// an unavailable chart repository takes along what only its charts lead to
	needs.Mark(e, map[string]error{repository: errors.New("no answer")})
	if g := app(e, "leaf"); g.LeftOut != "below blue-inner, which is left out" {
		t.Errorf("leaf: %q", g.LeftOut)
	}

	for name, options := range map[string][]Option{"judging": judging(cache), "reading": judging(cache)[:1]} {
		_, notes = read(options, applicationOf("apps", chart("apps", values("gone")), onHub), applicationOf("again", chart("gone", ""), onHub), applicationOf("elsewhere", chart("gone", ""), "name: dev, namespace: x"))
		for _, want := range []string{
			"apps-1.0.0/templates/all.yaml:6: unknown: chart gone 1.0.0 could not be read: lab charts pull: lab does not wait for what it leads to",
			"addons/theirs/applicationset.yaml:11:1: unknown: chart gone 1.0.0 could not be read: lab charts pull: lab does not wait for what it leads to",
		} {
			if strings.Count(notes, want) != 1 {
				t.Errorf("%s lacks %s:\n%s", name, want, notes)
			}
		}
	}
	if _, notes = read(nil, applicationOf("apps", chart("apps", ""), onHub)); !strings.Contains(notes, "unknown: chart apps 1.0.0 could not be read: lab does not wait for what it leads to") {
		t.Error(notes)
	}
	if _, notes = read(judging(cache), applicationOf("broken", chart("broken", ""), onHub)); !strings.Contains(notes, "unknown: the chart of broken could not be rendered: ") {
		t.Error(notes)
	}
}

// Flux's objects in charts are followed, in Git and elsewhere: releases, sources and Kustomizations.
func TestFluxObjectsOfCharts(t *testing.T) {
	cache := charts.Cache{Dir: t.TempDir()}
	leaf := chartstest.ConfigMap("leaf", "1.0.0")
	tree := map[string]string{"values.yaml": "chart: none\n", "templates/all.yaml": `apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: theirs}
spec: {interval: 1h, url: "{{ .Values.repository }}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: size}
data: {values.yaml: "size: 7"}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: leaf}
spec:
  interval: 1h
  valuesFrom: [{kind: ConfigMap, name: size}]
  chart: {spec: {chart: {{ .Values.chart }}, version: 1.0.0, sourceRef: {kind: HelmRepository, name: theirs}}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: below}
spec: {interval: 1h, prune: true, path: extra, sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}
`}
	server := chartstest.Repository(t, leaf, chartstest.Chart{Name: "apps", Version: "1.0.0", Files: tree})
	puller := cache.NewPuller(charts.Options{})
	for _, name := range []string{"apps", "leaf"} {
		if _, err := puller.Pull(t.Context(), lab.ChartUse{Name: name, Version: "1.0.0", Repository: server.URL}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name, chart, values string) (*lab.Estate, string) {
		t.Helper()
		files := defaultFiles(t)
		const file = "addons/metrics-server/flux/release.yaml"
		files[file] = &fstest.MapFile{Mode: 0o644, Data: []byte(string(files[file].Data) + fmt.Sprintf(`---
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: apps, namespace: flux-system}
spec: {interval: 1h, url: %q}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: %s, namespace: flux-system}
spec: {interval: 1h, chart: {spec: %s}, values: {repository: %q, %s}}
`, server.URL, name, chart, server.URL, values))}
		files["charts/apps/Chart.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: v2\nname: apps\nversion: 1.0.0\n")}
		for name, text := range tree {
			files["charts/apps/"+name] = &fstest.MapFile{Data: []byte(text)}
		}
		files["extra/cm.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra, namespace: default}\n")}
		e, apps, err := Desired(files, "", "homelab", append(judging(cache), WithEngine(lab.EngineFlux))...)
		if err != nil {
			t.Fatal(errors.Unwrap(err))
		}
		var lines []string
		for _, a := range apps {
			objects, problems := a.Objects()
			for _, o := range objects {
				if strings.HasSuffix(o.Part, "/leaf") || strict.Text(o.Node, "metadata", "name") == "extra" {
					lines = append(lines, a.Name+" "+o.ID()+" "+strict.Text(o.Node, "data", "size"))
				}
			}
			for _, p := range problems {
				lines = append(lines, p.String())
			}
		}
		for _, n := range e.Notes {
			lines = append(lines, n.String())
		}
		return e, strings.Join(lines, "\n")
	}
	for name, chart := range map[string]string{
		"fetched": "{chart: apps, version: 1.0.0, sourceRef: {kind: HelmRepository, name: apps}}",
		"in-git":  "{chart: charts/apps, sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}",
	} {
		t.Run(name, func(t *testing.T) {
			e, text := read(name, chart, "chart: leaf")
			t.Log(text)
			i := slices.IndexFunc(e.Applications, func(g lab.Generated) bool { return strings.Contains(g.Name, "below") })
			if i < 0 {
				t.Fatalf("the Kustomization is not followed:\n%s", text)
			}
			if g := e.Applications[i]; len(g.Needs) != 1 || !strings.HasSuffix(g.Needs[0], "-metrics-server") || g.LeftOut != "" {
				t.Errorf("%+v", g)
			}
			for _, want := range []string{" ConfigMap cluster-hub/leaf 7", " ConfigMap default/extra "} {
				if !strings.Contains(text, want) {
					t.Errorf("lacks %s:\n%s", want, text)
				}
			}
			_, text = read(name, chart, "chart: gone")
			if !strings.Contains(text, "unknown: chart gone 1.0.0 could not be read: lab charts pull: lab does not wait for what it leads to") {
				t.Error(text)
			}
		})
	}
	if _, text := read("gone", "{chart: gone, version: 1.0.0, sourceRef: {kind: HelmRepository, name: apps}}", "chart: none"); strings.Count(text, "unknown: chart gone 1.0.0 could not be read") != 1 {
		t.Error(text)
	}
}
