package reconciliation

import (
	"slices"
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A release that outlives its Kustomization on purpose is not an application; one that terminates later still is.
func TestReadOrphan(t *testing.T) {
	release := func(name, more string) string {
		return "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: " + name + ", namespace: cluster-dev" + more +
			", labels: {kustomize.toolkit.fluxcd.io/name: " + name + ", kustomize.toolkit.fluxcd.io/namespace: cluster-dev}}\nspec: {interval: 1m}\n---\n"
	}
	hub := newHub(t, release("going", "")+release("kept", ", annotations: {kustomize.toolkit.fluxcd.io/prune: disabled}"))
	v, err := read(t, hub)
	if err != nil {
		t.Fatal(err)
	}
	if list := v.Applications(); len(list) != 1 || list[0].Name != "dev-going" {
		t.Errorf("%+v", list)
	}
}

func TestApplies(t *testing.T) {
	release := helmv2.HelmRelease{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{FromName: "a", FromNamespace: "ns"}}}
	for name, tc := range map[string]struct {
		meta metav1.ObjectMeta
		want bool
	}{
		"its own":         {metav1.ObjectMeta{Name: "a", Namespace: "ns", ResourceVersion: "1"}, true},
		"deleted":         {metav1.ObjectMeta{Name: "a", Namespace: "ns"}, false},
		"other name":      {metav1.ObjectMeta{Name: "b", Namespace: "ns", ResourceVersion: "1"}, false},
		"other namespace": {metav1.ObjectMeta{Name: "a", Namespace: "other", ResourceVersion: "1"}, false},
	} {
		if got := (View{Apps: map[string]kustomizev1.Kustomization{"x": {ObjectMeta: tc.meta}}}).Applies(release); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Objects of releases in a cluster, or on the hub.
func TestReleasesIn(t *testing.T) {
	hub := newHub(t, releaseOf("prod", "podinfo")+localRelease("cluster-prod", "plain"))
	v, err := read(t, hub)
	if err != nil {
		t.Fatal(err)
	}
	for spoke, want := range map[string][]string{"prod": {"podinfo"}, "": {"plain"}, "dev": nil} {
		var got []string
		for _, r := range v.ReleasesIn(spoke) {
			got = append(got, r.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q", spoke, got)
		}
	}
}

// localRelease returns a release without a kubeconfig.
func localRelease(namespace, name string) string {
	return "\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: " + name + ", namespace: " + namespace + "}\nspec: {interval: 1m}\n---\n"
}
