package flux

import (
	"errors"
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

func TestLookErrors(t *testing.T) {
	broken := errors.New("broken")
	const generator = "\napiVersion: source.extensions.fluxcd.io/v1beta1\nkind: ArtifactGenerator\nmetadata: {name: parts, namespace: flux-system}\nspec: {sources: [], artifacts: []}\n"
	for _, kind := range []string{"secrets", "gitrepositories", "helmcharts", "artifactgenerators", "externalartifacts", "ocirepositories", "buckets", "kustomizations", "helmreleases"} {
		f, hub, _ := newFake(t, standing(), generator)
		if _, err := f.Applications(t.Context()); err != nil {
			t.Fatal(err)
		}
		hub.Refuse("list "+kind, broken)
		if _, err := f.Applications(t.Context()); !errors.Is(err, broken) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
