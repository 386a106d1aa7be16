package flux

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/kube/kubetest"
	"homelab/lab/flux"
)

const helmRecords = `
apiVersion: v1
kind: Namespace
metadata: {name: lab-system, labels: {lab.homelab/name: homelab}}
---
apiVersion: v1
kind: Namespace
metadata: {name: podinfo, annotations: {by: engine}, managedFields: [{manager: helm-controller}]}
---
apiVersion: v1
kind: Secret
metadata: {name: sh.helm.release.v1.podinfo-podinfo.v1, namespace: cluster-prod, labels: {owner: helm, name: podinfo-podinfo, version: "1"}}
---
apiVersion: v1
kind: Secret
metadata: {name: sh.helm.release.v1.hers.v1, namespace: cluster-prod, labels: {owner: helm, name: hers, version: "1"}}
`

const ownNamespaces = `
apiVersion: v1
kind: Namespace
metadata: {name: flux-system, labels: {lab.homelab/name: homelab}}
---
apiVersion: v1
kind: Namespace
metadata: {name: cluster-dev, labels: {lab.homelab/name: homelab}}
---
apiVersion: v1
kind: Namespace
metadata: {name: cluster-hers, labels: {lab.homelab/name: other}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {lab.homelab/name: homelab}}
---` + ownDefinitions

const ownDefinitions = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: helmreleases.helm.toolkit.fluxcd.io, annotations: {meta.helm.sh/release-name: flux, meta.helm.sh/release-namespace: flux-system}}
spec: {versions: [{name: v2, served: true}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: fluxinstances.fluxcd.controlplane.io}
`

func TestRetire(t *testing.T) {
	f, hub, spoke := newFake(t, registered("prod", "homelab", "2026-01-02T03:04:05Z")+app("prod", "podinfo", newCommit)+releaseOf("prod", "podinfo")+ownNamespaces)
	hub.Patch(t, helmReleases, "cluster-prod", "podinfo", map[string]any{"metadata": map[string]any{"finalizers": []string{"finalizers.fluxcd.io"}}})
	spoke.Create(t, "", helmRecords)
	release := &fakeRelease{state: helm.State{Revision: 1, Status: "deployed"}}
	f.release = release
	for range 2 {
		if err := f.Retire(t.Context(), map[string]*rest.Config{"prod": {}}, func(string) {}); err != nil {
			t.Fatal(err)
		}
	}
	if release.state.Revision != 0 {
		t.Error("the release is still there")
	}
	if got := spoke.Names(t, kube.Secrets, "cluster-prod"); !slices.Equal(got, []string{"sh.helm.release.v1.hers.v1"}) {
		t.Errorf("helm's records %v", got)
	}
	if got := kube.NotedNamespaces(spoke.Get(t, kube.Namespaces, "", kube.SpokeNamespace)); !slices.Equal(got, []string{"podinfo"}) {
		t.Errorf("noted %v", got)
	}
	if left := slices.Concat(hub.Names(t, helmReleases, ""), hub.Names(t, kustomizations, "")); !slices.Equal(left, []string{"podinfo"}) { // the definition of the latter is missing
		t.Errorf("left %v", left)
	}
	if got := hub.Names(t, kube.Namespaces, ""); !slices.Equal(got, []string{"cluster-hers", "cluster-prod", "shop"}) { // cluster-prod was created by another client
		t.Errorf("namespaces %v", got)
	}
	if got := hub.Names(t, kube.CRDs, ""); !slices.Equal(got, []string{"fluxinstances.fluxcd.controlplane.io"}) {
		t.Errorf("definitions %v", got)
	}
}

func TestRetireErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct{ at, request string }{{"hub", "list kustomizations"}, {"hub", "list namespaces"}, {"spoke", "list secrets"}, {"spoke", "delete secrets"}, {"spoke", "get namespaces"}} {
		f, hub, spoke := newFake(t, registered("prod", "homelab", "2026-01-02T03:04:05Z")+app("prod", "podinfo", newCommit)+releaseOf("prod", "podinfo"))
		spoke.Create(t, "", helmRecords)
		if tc.at == "hub" {
			hub.Refuse(tc.request, broken)
		} else {
			spoke.Refuse(tc.request, broken)
		}
		if err := f.Retire(t.Context(), map[string]*rest.Config{"prod": {}}, func(string) {}); !errors.Is(err, broken) {
			t.Errorf("%v: %v", tc, err)
		}
	}
	f, _, _ := newFake(t)
	f.release = &fakeRelease{fail: broken}
	if err := f.Retire(t.Context(), nil, func(string) {}); !errors.Is(err, broken) {
		t.Errorf("release: %v", err)
	}
}

// Every cluster loses its own Flux, the hub's last, as it has the other registrations.
func TestFleetRetire(t *testing.T) {
	hubHas, prodHas := pair()
	fleet, hub, spoke := newFleet(t, hubHas+ownNamespaces, prodHas+"\n---\n"+strings.TrimSpace(helmRecords)+"\n---\n"+strings.TrimSpace(ownNamespaces))
	var order []string
	for range 2 {
		err := fleet.Retire(t.Context(), map[string]*rest.Config{"prod": {Host: "https://prod"}}, func(s string) { order = append(order, s) })
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]*kubetest.Cluster{"hub": hub, "prod": spoke} {
		if got := c.Names(t, kube.CRDs, ""); !slices.Equal(got, []string{"fluxinstances.fluxcd.controlplane.io"}) {
			t.Errorf("definitions of %s: %v", name, got)
		}
		if got := c.Names(t, kube.Namespaces, ""); slices.Contains(got, flux.Namespace) {
			t.Errorf("namespaces of %s: %v", name, got)
		}
	}
	if order[0] != "cluster prod: stopping flux" || !slices.Contains(order, "stopping flux") {
		t.Errorf("%q", order)
	}
	broken := errors.New("broken")
	spoke.Refuse("list customresourcedefinitions", broken)
	hub.ClearActions()
	if err := fleet.Retire(t.Context(), map[string]*rest.Config{"prod": {Host: "https://prod"}}, func(string) {}); !errors.Is(err, broken) || len(hub.Writes()) > 0 {
		t.Errorf("hub's Flux removed first: %v", err)
	}
}
