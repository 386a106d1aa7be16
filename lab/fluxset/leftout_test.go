package fluxset

import "testing"

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
