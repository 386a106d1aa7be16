package fluxset

import (
	"maps"
	"testing"
)

// Flux's own controllers exist before what waits for them.
func TestChecksOfFlux(t *testing.T) {
	for name, want := range map[string]string{
		"helm-controller": "",
		"other":           "waits for Deployment other, which nothing in the repositories creates",
	} {
		x := expandForeign(map[string]string{
			"cluster/a.yaml": kustomizationOf("apps", ", healthChecks: [{apiVersion: apps/v1, kind: Deployment, name: "+name+", namespace: flux-system}]"),
			"apps/a.yaml":    "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n",
		})
		if got := x.Applications[0].LeftOut; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A chart with unknown values may create what others depend on.
func TestDependencyOfUnknownChart(t *testing.T) {
	files := map[string]string{
		"cluster/a.yaml": kustomizationOf("apps", ", dependsOn: [{name: gone}]") + kustomizationOf("charts", ""),
		"apps/a.yaml":    "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n",
		"charts/a.yaml": "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: flux-system}\n" +
			"spec: {interval: 1m, chart: {spec: {chart: web, sourceRef: {kind: GitRepository, name: flux-system}}}, valuesFrom: [{kind: Secret, name: keys}]}\n",
		"web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
	}
	for of, more := range map[string]map[string]string{
		"depends on flux-system/gone, which nothing in the repositories creates": nil,
		"depends on flux-system/gone, which only the chart of HelmRelease web may create: its values are unknown": {
			"web/templates/a.yaml": "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: {{ .Values.name }}}\n",
		},
	} {
		all := maps.Clone(files)
		maps.Copy(all, more)
		if got := expandForeign(all).Applications[0].LeftOut; got != of {
			t.Errorf("%q, want %q", got, of)
		}
	}
}
