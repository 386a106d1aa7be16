package render

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/strict"
)

// lamp is a chart of which everything about a release is printed.
var lamp = map[string]string{
	"Chart.yaml":           "apiVersion: v2\nname: lamp\nversion: 1.2.0\n",
	"values.yaml":          "size: 1\ndeep: {a: 1, b: 2}\n",
	"crds/crd.yaml":        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: lamps.example.com}\n",
	"templates/cm.yaml":    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  in: {{ .Release.Namespace }}\n  values: {{ .Values | toJson | quote }}\n  kube: {{ .Capabilities.KubeVersion.Version }}\n  has: {{ .Capabilities.APIVersions.Has \"example.com/v1\" | quote }}\n",
	"templates/hook.yaml":  "apiVersion: v1\nkind: Pod\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-install}}\n",
	"templates/test.yaml":  "apiVersion: v1\nkind: Pod\nmetadata: {name: test, annotations: {helm.sh/hook: test}}\n",
	"templates/empty.yaml": "{{ if .Values.nothing }}a: b{{ end }}\n",
}

func inflated(t *testing.T, files map[string]string, charts func(lab.ChartUse) (lab.ChartFiles, error)) ([]Document, error) {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return Render(Source{FS: fsys, Source: appset.Source{Path: "web"}, KubeVersion: "1.37.2", Charts: charts})
}

// vendoredLamp returns files with the chart in a folder.
func vendoredLamp(in string, files map[string]string) map[string]string {
	files = maps.Clone(files)
	for name, text := range lamp {
		files[in+"/"+name] = text
	}
	return files
}

// TestInflate checks the fields of helmCharts, whose meaning is that of kustomize's HelmChartInflationGenerator and `helm template`.
func TestInflate(t *testing.T) {
	for _, test := range []struct {
		name, chart string // a field of helmCharts, besides the name
		files       map[string]string
		want        string // objects; or an error
	}{
		{"defaults", "", nil, "ConfigMap release-name in default {deep: {a: 1, b: 2}, size: 1}; Pod hook; Pod test"},
		{"names", "releaseName: a, namespace: b", nil, "ConfigMap a in b {deep: {a: 1, b: 2}, size: 1}; Pod hook; Pod test"},
		{"no hooks", "skipHooks: true", nil, "ConfigMap release-name in default {deep: {a: 1, b: 2}, size: 1}"},
		{"no tests", "skipTests: true", nil, "ConfigMap release-name in default {deep: {a: 1, b: 2}, size: 1}; Pod hook"},
		{"definitions", "skipHooks: true, includeCRDs: true", nil, "CustomResourceDefinition lamps.example.com; ConfigMap release-name in default {deep: {a: 1, b: 2}, size: 1}"},
		{"inline", "skipHooks: true, valuesInline: {size: 2, deep: {a: 3, c: 4}}", nil, "ConfigMap release-name in default {deep: {a: 3, b: 2, c: 4}, size: 2}"},
		{"inline merged", "skipHooks: true, valuesMerge: merge, valuesInline: {size: 2, more: 1}", nil, "ConfigMap release-name in default {deep: {a: 1, b: 2}, more: 1, size: 1}"},
		{"inline alone", "skipHooks: true, valuesMerge: replace, valuesInline: {more: 1}", nil, "ConfigMap release-name in default {deep: {a: 1, b: 2}, more: 1, size: 1}"},
		{"file", "skipHooks: true, valuesFile: v.yaml", map[string]string{"web/v.yaml": "size: 7\n"}, "ConfigMap release-name in default {deep: {a: 1, b: 2}, size: 7}"},
		{
			"more files", "skipHooks: true, valuesInline: {size: 2, from: inline}, additionalValuesFiles: [v.yaml]",
			map[string]string{"web/v.yaml": "size: 7\n"},
			"ConfigMap release-name in default {deep: {a: 1, b: 2}, from: inline, size: 7}",
		},
		{"capabilities", "skipHooks: true, kubeVersion: 1.30.0, apiVersions: [example.com/v1]", nil, "ConfigMap release-name in default {deep: {a: 1, b: 2}, size: 1} v1.30.0 example.com/v1"},
		{"template of a name", `skipHooks: true, nameTemplate: '{{ "LAMP" | lower }}-x'`, nil, "ConfigMap lamp-x in default {deep: {a: 1, b: 2}, size: 1}"},
		{"no environment", `nameTemplate: '{{ env "HOME" }}'`, nil, `error: web/kustomization.yaml:1:1: chart lamp: nameTemplate: template: gotpl:1: function "env" not defined`},
		{"two names", "releaseName: a, nameTemplate: b", nil, "error: web/kustomization.yaml:1:1: chart lamp: has releaseName and nameTemplate, which Helm rejects"},
		{"wrong merge", "valuesMerge: mix, valuesInline: {a: 1}", nil, `error: web/kustomization.yaml:1:1: chart lamp: valuesMerge is "mix", not merge, override or replace`},
		{"file outside", "valuesFile: ../v.yaml", map[string]string{"v.yaml": ""}, "error: web/kustomization.yaml:1:1: chart lamp: v.yaml is outside the kustomization's folder, which kustomize rejects"},
		{"file missing", "valuesFile: v.yaml", nil, "error: web/kustomization.yaml:1:1: chart lamp: web/v.yaml does not exist, which kustomize needs"},
		{"file of others", "valuesFile: 'https://example.com/v.yaml'", nil, "error: web/kustomization.yaml: takes values from https://example.com/v.yaml"},
	} {
		t.Run(test.name, func(t *testing.T) {
			files := vendoredLamp("web/charts/lamp", map[string]string{"web/kustomization.yaml": "helmCharts: [{name: lamp, " + test.chart + "}]\n"})
			maps.Copy(files, test.files)
			docs, err := inflated(t, files, nil)
			if got := summary(docs, err); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func summary(docs []Document, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	var list []string
	for _, d := range docs {
		text := strict.Text(d.Node, "kind") + " " + strict.Text(d.Node, "metadata", "name")
		if in := strict.Text(d.Node, "data", "in"); in != "" {
			text += " in " + in + " " + strings.NewReplacer(`"`, "", ":", ": ", ",", ", ").Replace(strict.Text(d.Node, "data", "values"))
		}
		if kube := strict.Text(d.Node, "data", "kube"); kube != "" && kube != "v1.37.2" {
			text += " " + kube
		}
		if strict.Text(d.Node, "data", "has") == "true" {
			text += " example.com/v1"
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

// TestInflatePlaces checks where charts come from, the namespaces of bases and overlays, and the positions of objects.
func TestInflatePlaces(t *testing.T) {
	chart := fstest.MapFS{}
	for name, text := range lamp {
		chart[name] = &fstest.MapFile{Data: []byte(text)}
	}
	var asked []lab.ChartUse
	charts := func(use lab.ChartUse) (lab.ChartFiles, error) {
		asked = append(asked, use)
		if use.Repository == "https://none.example.com" {
			return lab.ChartFiles{}, errors.New("it was not pulled")
		}
		return lab.ChartFiles{FS: chart, Version: "1.2.0"}, nil
	}
	const size = "{deep: {a: 1, b: 2}, size: 1}"
	for _, test := range []struct {
		name  string
		files map[string]string
		want  string
		file  string // of the first object
		asked string // version, if a chart was asked for
	}{
		{
			"beside", vendoredLamp("web/charts/lamp", map[string]string{"web/kustomization.yaml": "helmCharts: [{name: lamp, skipHooks: true, repo: 'https://c.example.com'}]\n"}),
			"ConfigMap release-name in default " + size, "web/charts/lamp/templates/cm.yaml:1", "",
		},
		{
			"beside, with a version", vendoredLamp("web/charts/lamp-1.2.0/lamp", map[string]string{"web/kustomization.yaml": "helmCharts: [{name: lamp, skipHooks: true, version: 1.2.0, repo: 'https://c.example.com'}]\n"}),
			"ConfigMap release-name in default " + size, "web/charts/lamp-1.2.0/lamp/templates/cm.yaml:1", "",
		},
		{
			"pulled",
			map[string]string{"web/kustomization.yaml": "helmCharts: [{name: lamp, skipHooks: true, version: 1.x, repo: 'https://c.example.com'}]\n"},
			"ConfigMap release-name in default " + size, "lamp-1.2.0/templates/cm.yaml:1", "1.x",
		},
		{
			"old field",
			map[string]string{"web/kustomization.yaml": "helmChartInflationGenerator: [{chartName: lamp, chartVersion: 1.2.0, chartRepoUrl: 'https://c.example.com', releaseName: old}]\n"},
			"ConfigMap old in default " + size + "; Pod hook; Pod test", "lamp-1.2.0/templates/cm.yaml:1", "1.2.0",
		},
		{
			"absent",
			map[string]string{"web/kustomization.yaml": "resources: []\nhelmCharts: [{name: lamp, version: 1.2.0, repo: 'https://none.example.com'}]\n"},
			"error: web/kustomization.yaml:2:1: chart lamp 1.2.0 is not on this machine: it was not pulled", "", "1.2.0",
		},
		{
			"nowhere",
			map[string]string{"web/kustomization.yaml": "helmCharts: [{name: lamp}]\n"},
			"error: web/kustomization.yaml:1:1: chart lamp: no folder web/charts/lamp and no repo", "", "",
		},
		{
			"pulled outside",
			map[string]string{"web/kustomization.yaml": "helmGlobals: {chartHome: ../charts}\nhelmCharts: [{name: lamp, repo: 'https://c.example.com'}]\n"},
			"error: web/kustomization.yaml:2:1: chart lamp: charts/lamp/values.yaml is outside the kustomization's folder, which kustomize rejects", "", "",
		},
		{
			"namespace of the kustomization, which does not change objects",
			map[string]string{"web/kustomization.yaml": "namespace: shop\nhelmCharts: [{name: lamp, skipHooks: true, repo: 'https://c.example.com'}]\n"},
			"ConfigMap release-name in shop " + size, "lamp-1.2.0/templates/cm.yaml:1", "",
		},
		{
			"namespace of the overlay",
			map[string]string{
				"web/kustomization.yaml": "namespace: shop\nnamePrefix: x-\nresources: [../base]\n", "base/kustomization.yaml": "helmCharts: [{name: lamp, skipHooks: true, repo: 'https://c.example.com'}]\n",
			},
			"ConfigMap x-release-name in shop " + size, "lamp-1.2.0/templates/cm.yaml:1", "",
		},
		{
			"two overlays",
			map[string]string{
				"web/kustomization.yaml": "resources: [../a, ../b]\n", "a/kustomization.yaml": "namespace: a\nnamePrefix: a-\nresources: [../base]\n", "b/kustomization.yaml": "namespace: b\nresources: [../base]\n",
				"base/kustomization.yaml": "helmCharts: [{name: lamp, skipHooks: true, repo: 'https://c.example.com'}]\n",
			},
			`error: base/kustomization.yaml: is included for the namespaces "a" and "b", and lab inflates its charts for one`, "", "",
		},
		{
			"as a plugin",
			map[string]string{
				"web/kustomization.yaml": "generators: [chart.yaml]\n", "web/chart.yaml": "apiVersion: builtin\nkind: HelmChartInflationGenerator\nmetadata: {name: x}\nname: lamp\n",
			},
			"error: web/kustomization.yaml: has a chart in generators, as HelmChartInflationGenerator: lab knows only those in helmCharts", "", "",
		},
		{
			"patched",
			map[string]string{
				"web/kustomization.yaml": "helmCharts: [{name: lamp, skipHooks: true, repo: 'https://c.example.com'}]\npatches: [{patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: release-name}, data: {values: patched}}'}]\n",
			},
			"ConfigMap release-name in default patched", "lamp-1.2.0/templates/cm.yaml:1", "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked = nil
			docs, err := inflated(t, test.files, charts)
			if got := summary(docs, err); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if test.file != "" && len(docs) > 0 {
				if got := (lab.Position{File: docs[0].File, Line: docs[0].Line}).String(); got != test.file {
					t.Errorf("at %s, want %s", got, test.file)
				}
				if docs[0].Node != nil && strict.Get(docs[0].Node, "metadata", "namespace") != nil {
					t.Error("kustomize sets no namespaces of charts")
				}
			}
			if test.asked != "" && (len(asked) != 1 || asked[0].Version != test.asked || asked[0].Name != "lamp") {
				t.Errorf("asked for %+v", asked)
			}
		})
	}
}

// TestInflateLimits bounds all charts of a kustomization together.
func TestInflateLimits(t *testing.T) {
	entries := "helmCharts:\n" + strings.Repeat("- {name: lamp, skipHooks: true}\n", maxFiles/len(lamp)+1)
	for name, files := range map[string]map[string]string{
		"many":    {"web/kustomization.yaml": entries},
		"endless": {"web/kustomization.yaml": "helmCharts: [{name: lamp}]\n", "web/charts/lamp/templates/loop.yaml": "{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}"},
		"name":    {"web/kustomization.yaml": "helmCharts: [{name: lamp, nameTemplate: '{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}'}]\n"},
		"output":  {"web/kustomization.yaml": "helmCharts: [{name: lamp}]\n", "web/charts/lamp/templates/large.yaml": "{{ range until 100 }}{{ repeat 1000000 \"x\" }}{{ end }}"},
	} {
		all := vendoredLamp("web/charts/lamp", files)
		maps.Copy(all, files)
		if _, err := inflated(t, all, nil); !Exceeds(err) || Exhausted(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
