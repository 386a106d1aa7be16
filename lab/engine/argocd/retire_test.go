package argocd

import (
	"errors"
	"slices"
	"testing"

	"k8s.io/client-go/rest"

	"homelab/lab/argo"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
)

const ownKinds = `
apiVersion: v1
kind: Namespace
metadata: {name: argocd, labels: {lab.homelab/name: homelab}}
---` + ownDefinitions

const ownDefinitions = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: applications.argoproj.io, annotations: {meta.helm.sh/release-name: argocd, meta.helm.sh/release-namespace: argocd}}
spec: {versions: [{name: v1alpha1, served: true}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rollouts.argoproj.io}
`

func TestRetire(t *testing.T) {
	a, hub, spoke := newFake(t, clusterSecret("edge", "homelab"), converged())
	hub.Create(t, "", ownKinds)
	aimed(t, hub, "edge-web", "edge", "web")
	aimed(t, hub, "other-app", "other", "shop")
	hub.patch(t, applications, "edge-web", map[string]any{"metadata": map[string]any{"finalizers": []string{argo.Finalizer}}})
	spoke.create(t, spokeObjects+"\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: web, annotations: {by: engine}, managedFields: [{manager: argocd-controller}]}\n")
	release := &fakeRelease{state: helm.State{Revision: 1, Status: "deployed"}}
	a.release = release
	for range 2 {
		if err := a.Retire(t.Context(), map[string]*rest.Config{"edge": {}}, func(string) {}); err != nil {
			t.Fatal(err)
		}
	}
	if release.state.Revision != 0 {
		t.Error("the release is still there")
	}
	if left := hub.Names(t, applications, ""); len(left) > 0 {
		t.Errorf("applications %v", left)
	}
	if got := hub.Names(t, kube.CRDs, ""); !slices.Equal(got, []string{"rollouts.argoproj.io"}) {
		t.Errorf("definitions %v", got)
	}
	if got := hub.Names(t, kube.Namespaces, ""); slices.Contains(got, Namespace) {
		t.Errorf("namespaces %v", got)
	}
	noted := kube.NotedNamespaces(spoke.Get(t, kube.Namespaces, "", kube.SpokeNamespace))
	if !slices.Contains(noted, "web") || slices.Contains(noted, "shop") {
		t.Errorf("noted %v", noted)
	}
	if got := spoke.Names(t, kube.ClusterRoleBindings, ""); !slices.Equal(got, []string{"foreign"}) {
		t.Errorf("access %v", got)
	}
}

func TestRetireErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct{ at, request string }{{"hub", "list applications"}, {"hub", "get secrets"}, {"hub", "list customresourcedefinitions"}, {"spoke", "get namespaces"}, {"spoke", "delete clusterrolebindings"}} {
		a, hub, spoke := newFake(t, clusterSecret("edge", "homelab"), converged())
		hub.Create(t, "", ownKinds)
		spoke.create(t, spokeObjects)
		aimed(t, hub, "edge-web", "edge", "web")
		if tc.at == "hub" {
			hub.Refuse(tc.request, broken)
		} else {
			spoke.Refuse(tc.request, broken)
		}
		if err := a.Retire(t.Context(), map[string]*rest.Config{"edge": {}}, func(string) {}); !errors.Is(err, broken) {
			t.Errorf("%v: %v", tc, err)
		}
	}
	a, _, _ := newFake(t)
	a.release = &fakeRelease{fail: broken}
	if err := a.Retire(t.Context(), nil, func(string) {}); !errors.Is(err, broken) {
		t.Errorf("release: %v", err)
	}
}
