package fluxset

import (
	"slices"
	"testing"
)

// A chart in the repository defines a kind only with its definition or a dependency.
func TestKindsOfCharts(t *testing.T) {
	const release = `apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: things, namespace: default}
spec: {interval: 1m, chart: {spec: {chart: ./chart, sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}}}
`
	for name, c := range map[string]struct {
		files map[string]string
		by    []string
	}{
		"nothing":            {nil, nil},
		"a definition":       {map[string]string{"chart/crds/thing.yaml": "kind: CustomResourceDefinition\nspec: {group: example.com, names: {kind: Thing}, versions: [{name: v1}]}\n"}, []string{"flux-system/charts"}},
		"another definition": {map[string]string{"chart/crds/thing.yaml": "kind: CustomResourceDefinition\nspec: {group: example.com, names: {kind: Other}, versions: [{name: v1}]}\n"}, nil},
		"a template":         {map[string]string{"chart/templates/thing.yaml": "kind: CustomResourceDefinition\nspec: {{ .Values.spec }}\n"}, []string{"flux-system/charts"}},
		"dependencies":       {map[string]string{"chart/Chart.yaml": "name: things\ndependencies: [{name: base}]\n"}, []string{"flux-system/charts"}},
		"a vendored one": {map[string]string{
			"chart/Chart.yaml": "name: things\ndependencies: [{name: base}]\n", "chart/charts/base/Chart.yaml": "name: base\n",
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{
				"cluster/a.yaml":    kustomizationOf("charts", "") + kustomizationOf("things", ""),
				"charts/r.yaml":     release,
				"chart/Chart.yaml":  "name: things\n",
				"things/thing.yaml": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a, namespace: default}\n",
			}
			for name, text := range c.files {
				files[name] = text
			}
			x := expandForeign(files)
			i := slices.IndexFunc(x.Applications, func(a Application) bool { return a.Name == "things" })
			if a := x.Applications[i]; len(a.Undefined) != 1 || !slices.Equal(a.Undefined[0].By, c.by) || a.Stalled != (c.by == nil) {
				t.Errorf("%+v, stalled: %t", a.Undefined, a.Stalled)
			}
		})
	}
}
