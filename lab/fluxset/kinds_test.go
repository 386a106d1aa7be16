package fluxset

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestServes(t *testing.T) {
	for of, want := range map[schema.GroupVersionKind][2]bool{
		{Version: "v1", Kind: "ConfigMap"}:                                                         {true, true},
		{Group: "apps", Version: "v1", Kind: "Deployment"}:                                         {true, true},
		{Group: "policy", Version: "v1beta1", Kind: "PodDisruptionBudget"}:                         {false, true},
		{Group: "extensions", Version: "v1beta1", Kind: "Ingress"}:                                 {false, true},
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}:           {true, true},
		{Group: "apiextensions.k8s.io", Version: "v1beta1", Kind: "CustomResourceDefinition"}:      {false, true},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicy"}:    {true, true},
		{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}:                     {false, false},
		{Group: "autoscaling", Version: "v2beta2", Kind: "HorizontalPodAutoscaler"}:                {false, true},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"}:            {true, true},
		{Group: "settings.k8s.io", Version: "v1alpha1", Kind: "PodPreset"}:                         {false, false},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1beta3", Kind: "FlowSchema"}:            {false, true},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Kind: "PriorityLevelConfiguration"}: {true, true},
	} {
		if served, own := serves(of); served != want[0] || own != want[1] {
			t.Errorf("%s: %t, %t, want %v", of, served, own, want)
		}
	}
}

// A chart in the repository defines a kind only with its definition or a dependency.
func TestKindsOfCharts(t *testing.T) {
	const release = `apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: things, namespace: default}
spec: {chart: {spec: {chart: ./chart, sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}}}
`
	for name, c := range map[string]struct {
		files map[string]string
		by    []string
	}{
		"nothing":      {nil, nil},
		"a definition": {map[string]string{"chart/crds/thing.yaml": "kind: CustomResourceDefinition\n"}, []string{"flux-system/charts"}},
		"dependencies": {map[string]string{"chart/Chart.yaml": "name: things\ndependencies: [{name: base}]\n"}, []string{"flux-system/charts"}},
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
