package argocd

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/argo"
)

// aimed creates an Application that creates its namespace in a cluster.
func aimed(t *testing.T, hub *cluster, name, cluster, namespace string) {
	t.Helper()
	hub.create(t, object(name, newCommit, "Synced", "Healthy", ""))
	hub.patch(t, applications, name, map[string]any{"spec": map[string]any{
		"destination": map[string]any{"name": cluster, "server": nil, "namespace": namespace}, "syncPolicy": map[string]any{"syncOptions": []any{"CreateNamespace=true"}},
	}})
}

const spokeObjects = `
apiVersion: v1
kind: Namespace
metadata: {name: before, creationTimestamp: "2026-01-01T00:00:00Z", annotations: {by: engine}, managedFields: [{manager: argocd-controller}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: lab-system, creationTimestamp: "2026-01-02T00:00:00Z", labels: {lab.homelab/name: homelab}}
---
apiVersion: v1
kind: Namespace
metadata: {name: empty, uid: empty-1, creationTimestamp: "2026-01-02T00:00:00Z", annotations: {by: engine}, managedFields: [{manager: argocd-controller}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: used, creationTimestamp: "2026-01-03T00:00:00Z", annotations: {by: engine}, managedFields: [{manager: argocd-controller}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: unasked, creationTimestamp: "2026-01-03T00:00:00Z", annotations: {by: engine}, managedFields: [{manager: argocd-controller}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kube-root-ca.crt, namespace: empty}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: empty}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: foreign, namespace: used}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: lab-argocd-manager, labels: {lab.homelab/name: homelab}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: foreign}
`

func TestWithdraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, hub, spoke := newFake(t, clusterSecret("edge", "homelab"), converged())
		aimed(t, hub, "edge-empty", "edge", "empty")
		aimed(t, hub, "edge-used", "edge", "used")
		aimed(t, hub, "edge-before", "edge", "before")
		aimed(t, hub, "other-app", "other", "empty")
		hub.patch(t, applications, "addons", map[string]any{"metadata": map[string]any{"finalizers": []string{argo.Finalizer}}})
		spoke.create(t, spokeObjects)
		spoke.Typed.Resources = []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: metav1.Verbs{"list", "delete"}},
			{Name: "serviceaccounts", Kind: "ServiceAccount", Namespaced: true, Verbs: metav1.Verbs{"list", "delete"}},
			{Name: "bindings", Kind: "Binding", Namespaced: true, Verbs: metav1.Verbs{"create"}},
		}}}
		hub.ClearActions()
		var stays []string
		var cascaded []string
		done := make(chan error, 1)
		go func() {
			var err error
			stays, err = a.Withdraw(t.Context(), map[string]*rest.Config{"edge": {}}, func(string) {})
			done <- err
		}()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		for _, act := range hub.Actions() {
			if act.GetVerb() == "patch" && act.GetResource() == applications {
				cascaded = append(cascaded, act.(interface{ GetName() string }).GetName())
			}
		}
		for _, name := range []string{"edge-before", "edge-empty", "edge-used"} {
			if !slices.Contains(cascaded, name) {
				t.Errorf("%s deleted without cascade", name)
			}
		}
		if left := append(hub.names(t, applications), hub.names(t, applicationSets)...); len(left) != 0 {
			t.Errorf("left on the hub: %v", left)
		}
		if want := []string{"cluster edge: namespace used stays, with configmap foreign"}; !slices.Equal(stays, want) {
			t.Errorf("%q", stays)
		}
		for name, want := range map[string]bool{"before": true, "used": true, "unasked": true, "empty": false, "lab-system": false} {
			_, err := spoke.Resource(namespaces).Get(t.Context(), name, metav1.GetOptions{})
			if got := !apierrors.IsNotFound(err); got != want {
				t.Errorf("namespace %s: exists %t", name, got)
			}
		}
		for name, want := range map[string]bool{"foreign": true, "lab-argocd-manager": false} {
			_, err := spoke.Resource(roleBindings).Get(t.Context(), name, metav1.GetOptions{})
			if got := !apierrors.IsNotFound(err); got != want {
				t.Errorf("binding %s: exists %t", name, got)
			}
		}
		if stays, err := a.Withdraw(t.Context(), map[string]*rest.Config{"edge": {}}, func(string) {}); err != nil || len(stays) != 0 {
			t.Errorf("second Withdraw: %v, %v", stays, err)
		}
	})
}

// On timeout the error has Argo CD's own message, and its access stays for the next run.
func TestWithdrawTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, hub, spoke := newFake(t, clusterSecret("edge", "homelab"))
		aimed(t, hub, "edge-app", "edge", "app")
		hub.patch(t, applications, "edge-app", map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "DeletionError", "message": "the finalizer of pv-1 is stuck"}}}})
		hub.Refuse("delete applications", apierrors.NewNotFound(applications.GroupResource(), "edge-app")) // keeps it while its finalizer runs
		spoke.create(t, spokeObjects)
		began := time.Now()
		_, err := a.Withdraw(t.Context(), map[string]*rest.Config{"edge": {}}, func(string) {})
		e, ok := err.(*lab.Error)
		if !ok || e.Exit != lab.ExitTimeout || !strings.Contains(e.Message, "the finalizer of pv-1 is stuck") || e.Cure == "" {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took < withdrawWithin || took > withdrawWithin+time.Minute {
			t.Errorf("after %s", took)
		}
		if _, err := spoke.Resource(roleBindings).Get(t.Context(), "lab-argocd-manager", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
}
