package appset_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"homelab/lab/appset"
	"homelab/lab/strict"
)

func parse(t testing.TB, text string) *appset.Set {
	t.Helper()
	docs, problems := strict.Parse("set.yaml", []byte(text))
	if len(problems) > 0 || len(docs) != 1 {
		t.Fatalf("%d documents: %v", len(docs), problems)
	}
	set, problems := appset.Parse("set.yaml", docs[0])
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return set
}

// fleet registers n clusters in three environments, all with podinfo.
func fleet(n int) appset.World {
	w := appset.World{Namespace: "argocd"}
	for i := range n {
		name := fmt.Sprintf("c%03d", i)
		w.Clusters = append(w.Clusters, appset.Cluster{
			Name: name, Server: "https://" + name + ":6443",
			Labels: map[string]string{
				"argocd.argoproj.io/secret-type": "cluster", "enable_podinfo": "true", "cloud": "aws", "environment": []string{"dev", "staging", "prod"}[i%3],
			},
			Annotations: map[string]string{
				"addons_repo_url": "https://git.example.com/estate.git", "addons_repo_revision": "main", "addons_chart_repo_url": "https://charts.example.com",
			},
		})
	}
	return w
}

func podinfo(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("../../addons/podinfo/applicationset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestOrigins(t *testing.T) {
	text := podinfo(t)
	x, err := parse(t, text).Expand(fleet(3))
	if err != nil || len(x.Applications) != 3 {
		t.Fatal(err, x)
	}
	line := func(part string, nth int) int {
		for i, l := range strings.Split(text, "\n") {
			if strings.Contains(l, part) {
				if nth--; nth == 0 {
					return i + 1
				}
			}
		}
		return 0
	}
	for _, c := range []struct {
		app    int
		path   string
		line   int // of the template
		origin appset.Origin
		at     int
	}{
		{0, "spec sources 1 targetRevision", line("targetRevision: '{{.values", 1), appset.Origin{Parameter: "values.addonChartVersion", Generator: "clusters", Cluster: "c000", Exact: true}, line("addonChartVersion: 6.9.2", 1)},
		{2, "spec sources 1 targetRevision", line("targetRevision: '{{.values", 1), appset.Origin{Parameter: "values.addonChartVersion", Generator: "clusters", Cluster: "c002", Exact: true}, line("addonChartVersion: 6.7.0", 3)},
		{0, "spec sources 1 chart", line("chart: '{{", 1), appset.Origin{Parameter: "values.addonChart", Generator: "clusters", Cluster: "c000", Exact: true}, line("addonChart: podinfo", 1)},
		{
			1, "spec sources 0 repoURL", line("repoURL: '{{", 1),
			appset.Origin{Parameter: "metadata.annotations.addons_repo_url", Generator: "clusters", Cluster: "c001", Annotation: "addons_repo_url"},
			line("- clusters", 3),
		},
	} {
		got := x.Applications[c.app].Origins(strings.Fields(c.path)...)
		if len(got) != 2 || got[0].Line != c.line {
			t.Errorf("%s: %+v, want line %d and one parameter", c.path, got, c.line)
			continue
		}
		o := got[1]
		// A merge's later generators add the same annotations again; the last is reported.
		if at := o.Line; c.origin.Annotation == "" && at != c.at {
			t.Errorf("%s: %s is given in line %d, want %d", c.path, o.Parameter, at, c.at)
		}
		if o.Position = c.origin.Position; o != c.origin {
			t.Errorf("%s: %+v, want %+v", c.path, o, c.origin)
		}
	}
}

func TestUnknown(t *testing.T) {
	const template = "  template: {metadata: {name: x}, spec: {project: default, destination: {name: c000}}}\n"
	for name, c := range map[string]struct {
		spec string
		line int
		what string
	}{
		"pull requests":      {"  generators:\n  - pullRequest: {github: {owner: a, repo: b}}\n", 5, "pullRequest generator"},
		"providers":          {"  generators:\n  - list: {elements: []}\n  - scmProvider: {github: {organization: a}}\n", 6, "scmProvider generator"},
		"plugins":            {"  generators:\n  - plugin: {configMapRef: {name: a}}\n", 5, "plugin generator"},
		"decisions":          {"  generators:\n  - clusterDecisionResource: {configMapRef: a}\n", 5, "clusterDecisionResource generator"},
		"within a matrix":    {"  generators:\n  - matrix:\n      generators:\n      - list: {elements: [{a: b}]}\n      - pullRequest: {github: {owner: a, repo: b}}\n", 8, "pullRequest generator"},
		"random":             {"  goTemplate: true\n  generators:\n  - list: {elements: [{a: '{{ if .x }}{{ randAlpha 5 | lower }}{{ end }}'}]}\n", 6, "template function randAlpha"},
		"a repository":       {"  generators:\n  - git: {repoURL: https://git.example.com/x.git, revision: main, directories: [{path: '*'}]}\n", 5, "git generator over https://git.example.com/x.git"},
		"merged pull reques": {"  generators:\n  - merge:\n      mergeKeys: [a]\n      generators:\n      - list: {elements: [{a: b}]}\n      - matrix: {generators: [{list: {elements: [{a: b}]}}, {pullRequest: {}}]}\n", 9, "pullRequest generator"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, "kind: ApplicationSet\nmetadata: {name: x}\nspec:\n"+c.spec+template).Expand(fleet(1))
			var unknown *appset.UnknownError
			if !errors.As(err, &unknown) || unknown.What != c.what || unknown.Line != c.line {
				t.Errorf("%v, want line %d: %s", err, c.line, c.what)
			}
		})
	}
}

func TestRefs(t *testing.T) {
	text := func(template string) string {
		return "kind: ApplicationSet\nmetadata: {name: x}\nspec:\n  goTemplate: true\n  generators: [{clusters: {}}]\n  template:\n    metadata: {name: x}\n" +
			"    spec: {project: default, destination: {name: x}, info: [{name: x, value: '" + template + "'}]}\n"
	}
	for template, want := range map[string]string{
		`{{.metadata.labels.region}}`:                                                      "metadata.labels.region",
		`{{ .metadata.labels.region | default "x" }}`:                                      "metadata.labels.region?",
		`{{ index .metadata.annotations "example.com/team" }}`:                             "metadata.annotations.example.com/team?",
		`{{ if .metadata.labels.a }}{{ .metadata.labels.b }}{{ end }}`:                     "metadata.labels.a? metadata.labels.b?",
		`{{ with .metadata.annotations }}{{ .a }}{{ $.name }}{{ end }}`:                    "metadata.annotations? metadata.annotations.a? name?",
		`{{ $l := .metadata.labels }}{{ $l.tier | upper }}`:                                "metadata.labels metadata.labels.tier",
		`{{ range $k, $v := .metadata.labels }}{{ $k }}{{ end }}{{ .server }}`:             "metadata.labels? server",
		`{{ printf "%s-%s" .name (.values.version | replace "." "-") }}`:                   "name values.version",
		`{{ .name }}{{ .name | default "x" }}`:                                             "name",
		`{{ get .metadata.annotations "a" }}{{ if hasKey .metadata.labels "b" }}{{ end }}`: "metadata.annotations.a? metadata.labels.b?",
	} {
		var got []string
		for _, r := range parse(t, text(template)).Refs() {
			ref := strings.Join(r.Path, ".")
			if r.Guarded {
				ref += "?"
			}
			got = append(got, ref)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", template, got, want)
		}
	}
}

func TestParseProblems(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"quoted bool": {
			"spec:\n  generators: []\n  template:\n    metadata: {}\n    spec:\n      project: x\n      destination: {}\n      syncPolicy:\n        automated: {prune: \"true\"}\n",
			"set.yaml:9:28: spec.template.spec.syncPolicy.automated.prune cannot be a string",
		},
		"number as label": {
			"spec:\n  generators: []\n  template:\n    metadata:\n      labels: {a: b, c: 1}\n    spec: {project: x, destination: {}}\n",
			"set.yaml:5:25: spec.template.metadata.labels cannot be a number",
		},
		"nothing":        {"metadata: {name: x}\n", "set.yaml:1:1: ApplicationSet without spec"},
		"no destination": {"spec:\n  generators: []\n  template: {metadata: {}, spec: {project: x}}\n", "set.yaml:3:34: spec.template.spec without destination"},
	} {
		t.Run(name, func(t *testing.T) {
			docs, _ := strict.Parse("set.yaml", []byte(c.text))
			_, problems := appset.Parse("set.yaml", docs[0])
			if len(problems) != 1 || problems[0].String() != c.want {
				t.Errorf("%v, want %s", problems, c.want)
			}
		})
	}
}

func BenchmarkExpand(b *testing.B) {
	text := podinfo(b)
	for _, size := range []struct{ sets, clusters int }{{200, 100}, {400, 100}, {200, 200}} {
		b.Run(fmt.Sprintf("sets=%d/clusters=%d", size.sets, size.clusters), func(b *testing.B) {
			w := fleet(size.clusters)
			b.ReportAllocs()
			for b.Loop() {
				appset.InOrder(size.sets, func(int) *appset.Expansion {
					x, err := parse(b, text).Expand(w)
					if err != nil {
						b.Error(err)
					}
					return x
				}, func(_ int, x *appset.Expansion) {
					if x == nil || len(x.Applications) != size.clusters {
						b.Error(x)
					}
				})
			}
		})
	}
}
