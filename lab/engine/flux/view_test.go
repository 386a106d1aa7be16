package flux

import (
	"testing"
)

// A release that outlives its Kustomization on purpose is not an application; one that terminates later still is.
func TestLookOrphan(t *testing.T) {
	release := func(name, more string) string {
		return "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: " + name + ", namespace: cluster-dev" + more +
			", labels: {kustomize.toolkit.fluxcd.io/name: " + name + ", kustomize.toolkit.fluxcd.io/namespace: cluster-dev}}\nspec: {interval: 1m}\n---\n"
	}
	f, _, _ := newFake(t, release("going", "")+release("kept", ", annotations: {kustomize.toolkit.fluxcd.io/prune: disabled}"))
	v, err := f.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if list := v.applications(); len(list) != 1 || list[0].Name != "dev-going" {
		t.Errorf("%+v", list)
	}
}
