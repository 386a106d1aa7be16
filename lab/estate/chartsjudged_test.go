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
	"homelab/lab/supply/charts"
	"homelab/lab/supply/charts/chartstest"
)

const (
	operatorImage = "quay.example.com/acme/operator:1"
	gadget        = "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: a}\n"
)

// pulledCharts returns a repository, a cache that has its charts, and how often the repository was asked since.
func pulledCharts(t *testing.T) (url string, cache charts.Cache, requests func() int64) {
	t.Helper()
	chart := func(name, template string) chartstest.Chart {
		return chartstest.Chart{Name: name, Version: "1.0.0", Files: map[string]string{"templates/all.yaml": template}}
	}
	list := []chartstest.Chart{
		chart("runs", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: runs}\nspec:\n  selector: {matchLabels: {app: runs}}\n  template:\n    metadata: {labels: {app: runs}}\n"+
			"    spec: {containers: [{name: a, image: '"+operatorImage+"'}, {name: b, image: 'nginx:1'}]}\n"),
		chart("needs", gadget),
		chart("fails", "{{ fail \"no password\" }}\n"),
		chart("asks", "{{ if not (.Capabilities.APIVersions.Has \"example.com/v1\") }}{{ fail \"no Gadgets\" }}{{ end }}\n"),
		chart("random", "apiVersion: v1\nkind: Secret\nmetadata: {name: random}\nstringData: {password: {{ randAlphaNum 30 }}}\n"),
		chart("tests", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'tests-{{ randAlphaNum 5 | lower }}', annotations: {helm.sh/hook: test-success}}\n"), // Argo CD compares no hooks
		chart("forbidden", "apiVersion: v1\nkind: Secret\nmetadata: {name: Not_A_Name}\n"),
	}
	server, cache := chartstest.Repository(t, list...), charts.Cache{Dir: t.TempDir()}
	puller := cache.NewPuller(charts.Options{})
	for _, c := range list {
		if _, err := puller.Pull(t.Context(), lab.ChartUse{Name: c.Name, Version: c.Version, Repository: server.URL}); err != nil {
			t.Fatal(err)
		}
	}
	before := server.Requests.Load()
	return server.URL, cache, func() int64 { return server.Requests.Load() - before }
}

// judging are the options with which commands judge what they read.
func judging(cache charts.Cache) []Option {
	open := func(use lab.ChartUse) (lab.ChartFiles, error) {
		if use.Repository == "" {
			return lab.ChartFiles{FS: fstest.MapFS{"Chart.yaml": {Data: []byte("apiVersion: v2\nname: " + use.Name + "\nversion: 1.0.0\n")}}, Version: "1.0.0"}, nil
		}
		return cache.Files(use)
	}
	return []Option{WithChartFiles(open), WithImages(func(ref string) string { return map[string]string{"nginx:1": "nginx"}[ref] })}
}

// Charts of chart repositories that are on this machine are judged like folders in Git; others are unknown, which is said once.
func TestChartsAreJudged(t *testing.T) {
	url, cache, requests := pulledCharts(t)
	load := func(names ...string) *lab.Estate {
		t.Helper()
		files := "-- clusters/dev/cluster.yaml --\napiVersion: lab/v1alpha1\nkind: Cluster\nmetadata: {name: dev}\nspec: {role: spoke, environment: dev, addons: {podinfo: true}}\n" +
			"-- addons/theirs/applicationset.yaml --\n"
		for _, name := range names {
			chart, _, _ := strings.Cut(name, "-")
			files += fmt.Sprintf("---\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: %s, namespace: argocd}\nspec:\n  project: default\n"+
				"  source: {repoURL: %q, chart: %s, targetRevision: 1.0.0}\n  destination: {name: dev, namespace: theirs}\n  syncPolicy: {automated: {}, syncOptions: [CreateNamespace=true]}\n", name, url, chart)
		}
		dir, fsys := build(t, txtar.Parse([]byte(files)))
		e, err := Load(fsys, dir, "homelab", judging(cache)...)
		if err != nil {
			t.Fatal(errors.Unwrap(err))
		}
		return e
	}
	app := func(e *lab.Estate, name string) lab.Generated {
		return e.Applications[slices.IndexFunc(e.Applications, func(g lab.Generated) bool { return g.Name == name })]
	}
	notes := func(e *lab.Estate) string {
		var lines []string
		for _, n := range e.Notes {
			lines = append(lines, n.String())
		}
		return strings.Join(lines, "\n")
	}
	e := load("runs", "needs", "fails", "asks", "random", "tests", "forbidden")
	for name, want := range map[string]string{
		"runs": "", "asks": "", "random": "",
		"fails":     "it cannot be rendered: fails-1.0.0/templates/all.yaml:",
		"forbidden": "Secret Not_A_Name is invalid: its name cannot be that of an object",
	} {
		if got := app(e, name).LeftOut; !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s is left out: %q, want %q", name, got, want)
		}
	}
	if g := app(e, "runs"); !slices.Contains(g.Pulls, operatorImage) || !slices.Equal(g.Images, []string{"nginx"}) {
		t.Errorf("images %q, pulled %q", g.Images, g.Pulls)
	}
	if g := app(e, "needs"); g.Doubt != "" { // asks may define it: its chart cannot be rendered without a cluster
		t.Errorf("doubt: %q", g.Doubt)
	}
	if text := notes(e); !strings.Contains(text, "random is never in sync: randAlphaNum gives another value each time that Argo CD renders it (random-1.0.0/templates/all.yaml:4)") || strings.Contains(text, "not on this machine") || strings.Contains(text, "tests is never") {
		t.Error(text)
	}
	if g := app(load("runs", "needs"), "needs"); g.Doubt != "nothing defines Gadget of example.com/v1 on dev" {
		t.Errorf("doubt: %q", g.Doubt)
	}
	e = load("runs", "needs", "absent-one", "absent-two")
	if g := app(e, "needs"); g.Doubt != "" {
		t.Errorf("doubt though a chart is unknown: %q", g.Doubt)
	}
	if text := notes(e); strings.Count(text, "chart absent 1.0.0 is not on this machine: lab charts pull") != 1 {
		t.Error(text)
	}
	if n := requests(); n > 0 {
		t.Errorf("%d requests", n)
	}
}

func TestFluxChartsAreJudged(t *testing.T) {
	url, cache, requests := pulledCharts(t)
	files := defaultFiles(t)
	const file = "addons/identity/flux/release.yaml"
	text := string(files[file].Data) + "---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {name: theirs, namespace: default}\nspec: {interval: 1h, url: \"" + url + "\"}\n"
	for _, name := range []string{"runs", "needs", "absent"} {
		text += fmt.Sprintf("---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: %s, namespace: default}\n"+
			"spec: {interval: 1h, chart: {spec: {chart: %[1]s, version: 1.0.0, sourceRef: {kind: HelmRepository, name: theirs}}}}\n", name)
	}
	files[file] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	e, err := Load(files, "", "homelab", append(judging(cache), WithEngine(lab.EngineFlux))...)
	if err != nil {
		t.Fatal(errors.Unwrap(err))
	}
	g := e.Applications[slices.IndexFunc(e.Applications, func(g lab.Generated) bool { return g.Name == "dev-identity" })]
	if !slices.Contains(g.Pulls, operatorImage) || !slices.Contains(g.Images, "nginx") {
		t.Errorf("images %q, pulled %q", g.Images, g.Pulls)
	}
	const want = "HelmRelease needs needs kind Gadget of example.com, which nothing available defines"
	if !slices.ContainsFunc(g.Lacks, func(n lab.Need) bool { return n.Why == want }) {
		t.Errorf("lacks %+v", g.Lacks)
	}
	if n := slices.IndexFunc(e.Notes, func(p lab.Problem) bool {
		return strings.HasPrefix(p.Message, "chart absent 1.0.0 is not on this machine")
	}); n < 0 {
		t.Errorf("notes %v", e.Notes)
	}
	if n := requests(); n > 0 {
		t.Errorf("%d requests", n)
	}
}
