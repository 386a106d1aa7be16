package fluxset

import (
	"slices"
	"strings"
	"testing"

	"homelab/lab"
)

// A ResourceSet may depend on a Kustomization that waits for one that does not exist.
func TestDependencyOfNothing(t *testing.T) {
	x := expandForeign(map[string]string{
		"cluster/a.yaml": kustomizationOf("apps", ", dependsOn: [{name: gone}]") +
			"apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: set, namespace: flux-system}\n" +
			"spec: {dependsOn: [{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: apps, namespace: flux-system, ready: true}]}\n",
		"apps/a.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n",
	})
	const want = "ResourceSet set depends on Kustomization flux-system/apps, which waits for flux-system/gone, which nothing in the repositories creates"
	if !slices.ContainsFunc(x.Notes, func(p lab.Problem) bool { return p.Message == want }) {
		t.Errorf("%v, want %s", x.Notes, want)
	}
}

// Lab's patch hides the ResourceSets of a nested Kustomization from Flux, not from lab: kustomize trims the patch.
func TestNestedDeletion(t *testing.T) {
	patch := ", patches: [{target: {kind: ResourceSet, name: set}, patch: \"" + strings.ReplaceAll(strings.TrimSpace(Deleted), "\n", `\n`) + "\"}]"
	x := expandForeign(map[string]string{
		"cluster/a.yaml": kustomizationOf("apps", patch),
		"apps/a.yaml":    "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: set, namespace: flux-system}\nspec: {resources: []}\n",
	})
	if a := x.Applications[0]; len(x.Sets) != 1 || len(a.Objects) > 0 || a.LeftOut != "" {
		t.Errorf("%d sets, %+v", len(x.Sets), a)
	}
}
