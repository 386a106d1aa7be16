package kubetest

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab/engine/kube"
)

// Owned returns a cluster that its owner runs: with an Argo CD and a Flux, in the namespaces that lab would choose, and what both applied. kinds are added to
// theirs.
func Owned(t *testing.T, kinds Kinds) *Cluster {
	t.Helper()
	all := Core()
	all[kube.CRDs] = "CustomResourceDefinition"
	for kind, r := range map[string]schema.GroupVersionResource{
		"Application":   {Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"},
		"Kustomization": {Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Resource: "kustomizations"},
		"GitRepository": {Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: "gitrepositories"},
		"HelmRelease":   {Group: "helm.toolkit.fluxcd.io", Version: "v2", Resource: "helmreleases"},
		"ClusterRole":   {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	} {
		all[r] = kind
	}
	for r, kind := range kinds {
		all[r] = kind
	}
	c := New(t, all, ownersObjects)
	verbs := metav1.Verbs{"get", "list", "patch", "delete"}
	lists := map[string]*metav1.APIResourceList{}
	for r, kind := range all {
		gv := r.GroupVersion().String()
		if lists[gv] == nil {
			lists[gv] = &metav1.APIResourceList{GroupVersion: gv}
			c.Typed.Resources = append(c.Typed.Resources, lists[gv])
		}
		lists[gv].APIResources = append(lists[gv].APIResources, metav1.APIResource{Name: r.Resource, Kind: kind, Namespaced: !slices.Contains(clusterScoped(), kind), Verbs: verbs})
	}
	return c
}

// Attach creates what lab has in a cluster that its owner runs; account is the engine's.
func (c *Cluster) Attach(t *testing.T, account string) {
	t.Helper()
	c.Create(t, kube.SpokeNamespace, fmt.Sprintf(attached, account))
}

const attached = `
apiVersion: v1
kind: Namespace
metadata: {name: lab-system, creationTimestamp: "2026-11-01T00:00:00Z", labels: {lab.homelab/name: homelab}}
---
apiVersion: v1
kind: Secret
metadata: {name: %s-token, labels: {lab.homelab/name: homelab}}
data: {token: c2VjcmV0, ca.crt: UEVN}
`

// Unchanged fails the test if one of these objects, by Versions, was changed or removed.
func (c *Cluster) Unchanged(t *testing.T, versions map[string]string) {
	t.Helper()
	now := c.Versions(t)
	maps.DeleteFunc(now, func(what, _ string) bool { _, known := versions[what]; return !known })
	if d := cmp.Diff(versions, now); d != "" {
		t.Errorf("the owner's objects changed:\n%s", d)
	}
}

// Released fails the test unless lab's namespace is gone, and that of an application.
func (c *Cluster) Released(t *testing.T, namespace string) {
	t.Helper()
	for _, name := range c.Names(t, kube.Namespaces, "") {
		if name == namespace || name == kube.SpokeNamespace {
			t.Errorf("namespace %s still exists", name)
		}
	}
}

// ownersObjects are applied by tools that leave the same traces as lab's engines, and are called as lab's objects could be.
const ownersObjects = `
apiVersion: v1
kind: Namespace
metadata: {name: argocd, creationTimestamp: "2025-01-01T00:00:00Z"}
---
apiVersion: v1
kind: Namespace
metadata: {name: flux-system, creationTimestamp: "2025-01-01T00:00:00Z", labels: {kustomize.toolkit.fluxcd.io/name: flux-system, kustomize.toolkit.fluxcd.io/namespace: flux-system}}
---
apiVersion: v1
kind: Namespace
metadata: {name: cluster-edge, creationTimestamp: "2025-01-01T00:00:00Z"}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, creationTimestamp: "2025-01-01T00:00:00Z", annotations: {by: engine}, managedFields: [{manager: argocd-controller}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: applications.argoproj.io, creationTimestamp: "2025-01-01T00:00:00Z", annotations: {meta.helm.sh/release-name: argocd, meta.helm.sh/release-namespace: argocd}}
spec: {group: argoproj.io, versions: [{name: v1alpha1, served: true}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kustomizations.kustomize.toolkit.fluxcd.io, creationTimestamp: "2025-01-01T00:00:00Z", annotations: {meta.helm.sh/release-name: flux, meta.helm.sh/release-namespace: flux-system}}
spec: {group: kustomize.toolkit.fluxcd.io, versions: [{name: v1beta2, served: false}, {name: v1, served: true}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: buckets.source.toolkit.fluxcd.io, creationTimestamp: "2025-01-01T00:00:00Z", annotations: {meta.helm.sh/release-name: flux, meta.helm.sh/release-namespace: flux-system}}
spec: {group: source.toolkit.fluxcd.io, versions: [{name: v1, served: true}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: flux-view-flux-system, annotations: {meta.helm.sh/release-name: flux, meta.helm.sh/release-namespace: flux-system}}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: edge-web, namespace: argocd, finalizers: [resources-finalizer.argocd.argoproj.io]}
spec: {destination: {server: 'https://kubernetes.default.svc', namespace: shop}}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  labels: {app.kubernetes.io/instance: edge-web}
  annotations: {argocd.argoproj.io/tracking-id: 'edge-web:apps/Deployment:shop/web', kubectl.kubernetes.io/last-applied-configuration: '{}'}
  managedFields: [{manager: argocd-controller}]
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: web
  namespace: shop
  annotations: {argocd.argoproj.io/tracking-id: 'edge-web:/ConfigMap:shop/web', argocd.argoproj.io/installation-id: hers}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system, labels: {kustomize.toolkit.fluxcd.io/name: flux-system, kustomize.toolkit.fluxcd.io/namespace: flux-system}}
spec: {url: 'https://git.example.com/hers.git', interval: 1m, secretRef: {name: flux-system}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: flux-system
  namespace: flux-system
  finalizers: [finalizers.fluxcd.io]
  labels: {kustomize.toolkit.fluxcd.io/name: flux-system, kustomize.toolkit.fluxcd.io/namespace: flux-system}
spec: {interval: 10m, prune: true, path: x, sourceRef: {kind: GitRepository, name: flux-system}}
status: {inventory: {entries: [{id: flux-system_apps_kustomize.toolkit.fluxcd.io_Kustomization, v: v1}]}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: apps
  namespace: flux-system
  finalizers: [finalizers.fluxcd.io]
  labels: {kustomize.toolkit.fluxcd.io/name: flux-system, kustomize.toolkit.fluxcd.io/namespace: flux-system}
spec: {interval: 10m, prune: true, path: x, sourceRef: {kind: GitRepository, name: flux-system}}
status: {inventory: {entries: [{id: shop_cart_apps_Deployment, v: v1}]}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: leaving, namespace: flux-system, deletionTimestamp: "2026-11-01T00:00:00Z", finalizers: [finalizers.fluxcd.io]}
spec: {interval: 10m, prune: true, path: x, sourceRef: {kind: GitRepository, name: flux-system}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata:
  name: cache
  namespace: shop
  finalizers: [finalizers.fluxcd.io]
  labels: {kustomize.toolkit.fluxcd.io/name: apps, kustomize.toolkit.fluxcd.io/namespace: flux-system}
spec: {interval: 10m}
status:
  storageNamespace: shop
  history: [{chartName: cache, chartVersion: 1.0.0, configDigest: x, digest: x, name: cache, namespace: shop, status: deployed, version: 1, firstDeployed: null, lastDeployed: null, deleted: null}]
---
apiVersion: v1
kind: Secret
metadata: {name: sh.helm.release.v1.cache.v1, namespace: shop, labels: {owner: helm, name: cache, version: "1"}}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: cart
  namespace: shop
  labels: {kustomize.toolkit.fluxcd.io/name: apps, kustomize.toolkit.fluxcd.io/namespace: flux-system}
  managedFields: [{manager: kustomize-controller}]
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: cache
  namespace: shop
  labels: {helm.toolkit.fluxcd.io/name: cache, helm.toolkit.fluxcd.io/namespace: shop}
  annotations: {meta.helm.sh/release-name: cache, meta.helm.sh/release-namespace: shop}
  managedFields: [{manager: helm-controller}]
`
