package reconciliation

import (
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab/engine/kube"
	"homelab/lab/flux"
)

// of returns the labels of an object that a Kustomization of flux-system applied.
func of(name string) string {
	return "kustomize.toolkit.fluxcd.io/name: " + name + ", kustomize.toolkit.fluxcd.io/namespace: flux-system"
}

// In a cluster that lab attached, only what descends from the lab's roots is the lab's, also after what it descends from was removed.
func TestRooted(t *testing.T) {
	hub := newHub(t, source(newCommit)+layer("flux-system", "", newCommit)+layer("apps", "flux-system", newCommit)+
		kustomization("flux-system", "web", of("apps"), newCommit)+kustomization("cluster-edge", "mine", of("flux-system"), newCommit)+
		kustomization("hers", "self", "kustomize.toolkit.fluxcd.io/name: self, kustomize.toolkit.fluxcd.io/namespace: hers", newCommit)+
		kustomization("hers", "below", "kustomize.toolkit.fluxcd.io/name: self, kustomize.toolkit.fluxcd.io/namespace: hers", newCommit)+
		kustomization("cluster-edge", "plain", "a: b", newCommit)+
		kustomization("flux-system", "orphan", of("gone"), newCommit)+releaseOf("edge", "mine")+releaseOf("hers", "cache"))
	see := func() View {
		t.Helper()
		v, err := Read(t.Context(), hub.Clients().Dynamic, "homelab", flux.Scope{Home: "edge", Rooted: true})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	v := see()
	want := []string{"edge-apps", "edge-mine", "edge-web"}
	if got := slices.Sorted(maps.Keys(v.Apps)); !slices.Equal(got, want) || len(v.Layers) != 1 || len(v.Releases) != 1 {
		t.Errorf("%q, %d layers, %d releases", got, len(v.Layers), len(v.Releases))
	}
	for range 2 {
		if err := v.NoteAll(t.Context(), hub); err != nil {
			t.Fatal(err)
		}
		v = see()
	}
	if writes := hub.Writes(); len(writes) != 1 {
		t.Errorf("%q", writes)
	}
	if err := hub.Resource(Kustomizations).Namespace("flux-system").Delete(t.Context(), "apps", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	v = see()
	if got := slices.Sorted(maps.Keys(v.Apps)); !slices.Equal(got, want[1:]) {
		t.Errorf("%q", got)
	}
	for name, want := range map[string]bool{"flux-system": true, "apps": true, "web": true, "gone": false, "": false} {
		if got := v.Made(map[string]string{FromName: name, FromNamespace: "flux-system"}); got != want {
			t.Errorf("made by %q: %t", name, got)
		}
	}
	origin := v.Origin()
	for want, labels := range map[kube.Origin]map[string]string{
		kube.Ours:   {FromName: "web", FromNamespace: "flux-system"},
		kube.Theirs: {FromName: "self", FromNamespace: "hers"},
		kube.Untold: {"a": "b"},
	} {
		o := hub.Get(t, GitRepositories, "flux-system", "flux-system")
		o.SetLabels(labels)
		if got := origin(o); got != want {
			t.Errorf("%v: %v", labels, got)
		}
	}
}

func TestInventoryIDs(t *testing.T) {
	for id, want := range map[string][]kube.Object{
		"web_web_apps_Deployment": {{Group: "apps", Kind: "Deployment", Namespace: "web", Name: "web"}},
		"_web__Namespace":         {{Kind: "Namespace", Name: "web"}},
		"_system__view_rbac_Role": {{Group: "rbac", Kind: "Role", Name: "system:view"}},
		"x_web_x_apps_Deployment": nil,
		"web":                     nil,
		"web_Deployment":          nil,
	} {
		if got := appendID(nil, id); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
}
