package argocd

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/kube/kubetest"
)

// syncedToEdge is what the lab's Application edge-web synced to the attached cluster.
const syncedToEdge = `
apiVersion: v1
kind: Namespace
metadata: {name: web, creationTimestamp: "2026-11-02T00:00:00Z", annotations: {by: engine}, managedFields: [{manager: argocd-controller}]}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: web
  uid: lab-web
  creationTimestamp: "2026-11-02T00:00:00Z"
  annotations: {argocd.argoproj.io/tracking-id: 'edge-web:apps/Deployment:web/web', argocd.argoproj.io/installation-id: lab-homelab}
  managedFields: [{manager: argocd-controller}]
`

// attachedEdge returns an engine with the attached cluster edge, whose owner runs an Argo CD and a Flux. hers are the versions of the owner's objects.
func attachedEdge(t *testing.T) (a *ArgoCD, hub *cluster, edge *kubetest.Cluster, hers map[string]string) {
	t.Helper()
	a, hub, _ = newFake(t, converged())
	edge = kubetest.Owned(t, nil)
	hers = edge.Versions(t)
	edge.Attach(t, "argocd-manager")
	a.connect, a.attached = func(*rest.Config) (kube.Clients, error) { return edge.Clients(), nil }, func(cluster string) bool { return cluster == "edge" }
	if _, err := a.Register(t.Context(), lab.Registration{Cluster: "edge", Server: "https://edge"}, &rest.Config{}); err != nil {
		t.Fatal(err)
	}
	aimed(t, hub, "edge-web", "edge", "web")
	hub.patch(t, applications, "edge-web", map[string]any{"status": map[string]any{"resources": []any{
		map[string]any{"group": "apps", "kind": "Deployment", "namespace": "web", "name": "web"},
	}}})
	edge.Create(t, "", syncedToEdge)
	return a, hub, edge, hers
}

// An attached cluster keeps everything of its owner's engines when lab's is replaced, although their objects have the same traces and names.
func TestRetireBesideOwner(t *testing.T) {
	a, hub, edge, hers := attachedEdge(t)
	hub.Create(t, "", ownDefinitions)
	edge.Unchanged(t, hers)
	a.release = &fakeRelease{state: helm.State{Revision: 1, Status: "deployed"}}
	for range 2 {
		if err := a.Retire(t.Context(), map[string]*rest.Config{"edge": {}}, silent); err != nil {
			t.Fatal(err)
		}
	}
	edge.Unchanged(t, hers)
	web := edge.Get(t, kube.ExtraKinds["Deployment"], "web", "web")
	if len(web.GetAnnotations()) > 0 || slices.ContainsFunc(web.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "argocd-controller" }) {
		t.Errorf("traces of lab's engine: %v", web.Object["metadata"])
	}
}

// A cluster that leaves is released as it was found.
func TestLeaveBesideOwner(t *testing.T) {
	for name, leave := range map[string]func(*testing.T, *ArgoCD) error{
		"unregister": func(t *testing.T, a *ArgoCD) error {
			_, err := a.Unregister(t.Context(), engine.Departure{Cluster: "edge", Spoke: &rest.Config{}, LivesOn: true}, silent)
			return err
		},
		"withdraw": func(t *testing.T, a *ArgoCD) error {
			_, err := a.Withdraw(t.Context(), map[string]*rest.Config{"edge": {}}, silent)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, _, edge, hers := attachedEdge(t)
				// As Argo CD does on the way.
				if err := edge.Resource(kube.ExtraKinds["Deployment"]).Namespace("web").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				if err := leave(t, a); err != nil {
					t.Fatal(err)
				}
				edge.Unchanged(t, hers)
				edge.Released(t, "web")
			})
		})
	}
}

// Lab takes no object over that has the name of one of its own.
func TestRegisterTakesNothing(t *testing.T) {
	for _, theirs := range []string{
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: lab-system}\n",
		"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: argocd-manager, namespace: lab-system}\n",
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: lab-argocd-manager}\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: argocd-manager-token, namespace: lab-system, labels: {lab.homelab/name: other}}\n",
	} {
		a, _, spoke := newFake(t)
		spoke.create(t, theirs)
		before := spoke.Versions(t)
		_, err := a.Register(t.Context(), lab.Registration{Cluster: "edge", Server: "https://edge"}, &rest.Config{})
		var failed *lab.Error
		if !errors.As(err, &failed) || failed.Code != "not_ours" || !strings.Contains(failed.Message, "that is not the lab's") {
			t.Errorf("%s: %v", theirs, err)
		}
		spoke.Unchanged(t, before)
	}
}
