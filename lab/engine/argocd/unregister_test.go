package argocd

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
)

func clusterSecret(name, labName string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata:
  name: cluster-%s
  namespace: argocd
  labels: {argocd.argoproj.io/secret-type: cluster, lab.homelab/name: %s, lab.homelab/part: registration, enable_podinfo: "true", environment: prod}
data: {name: cHJvZA==, server: aHR0cHM6Ly9wcm9k}
`, name, labName)
}

func gone(t *testing.T, hub *cluster) bool {
	t.Helper()
	_, err := hub.Resource(secrets).Namespace(Namespace).Get(t.Context(), "cluster-prod", metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

// prodSpoke connects to cluster prod.
var prodSpoke = &rest.Config{}

// The registration must outlive the Applications, as Argo CD needs it to delete their objects.
func TestUnregister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, hub, _ := newFake(t, converged(), clusterSecret("prod", "homelab"))
		hub.patch(t, applications, "addons", map[string]any{"spec": map[string]any{"destination": map[string]any{"name": "hub"}}})
		hub.patch(t, applications, "prod-podinfo", ownedBy("podinfo"))
		var lines, progress []string
		done := make(chan error, 1)
		go func() {
			var err error
			lines, err = a.Unregister(t.Context(), engine.Departure{Cluster: "prod", Spoke: prodSpoke}, func(s string) { progress = append(progress, s) })
			done <- err
		}()
		time.Sleep(5 * time.Second)
		labels := hub.Get(t, secrets, Namespace, "cluster-prod").GetLabels()
		if _, on := labels["enable_podinfo"]; on || labels["environment"] != "prod" {
			t.Errorf("labels %v", labels)
		}
		now := "2026-01-01T00:00:00Z"
		hub.patch(t, applications, "prod-podinfo", map[string]any{"metadata": map[string]any{"deletionTimestamp": now}})
		hub.patch(t, applicationSets, "podinfo", unannotate(refreshApplicationSet))
		time.Sleep(5 * time.Second)
		if gone(t, hub) {
			t.Fatal("registration deleted before the Application")
		}
		hub.Writes()
		time.Sleep(unmoved)
		if w := hub.Writes(); !slices.Equal(w, []string{"patch secrets cluster-prod", "patch applications prod-podinfo"}) {
			t.Errorf("requests %v, want the cluster reread and the Application refreshed", w)
		}
		if err := hub.Resource(applications).Namespace(Namespace).Delete(t.Context(), "prod-podinfo", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil || !slices.Equal(lines, []string{"cluster prod is no longer registered"}) {
			t.Errorf("%v, %v", lines, err)
		}
		if !gone(t, hub) {
			t.Error("registration still exists")
		}
		if !slices.Equal(progress, []string{"removing 1 applications of prod: prod-podinfo"}) {
			t.Errorf("progress %q", progress)
		}
	})
}

func ownedBy(set string) map[string]any {
	return map[string]any{"metadata": map[string]any{"ownerReferences": []any{map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": set, "uid": set}}}}
}

// An ApplicationSet that generates nothing may never answer.
func TestUnregisterUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, hub, _ := newFake(t, converged(), clusterSecret("prod", "homelab"))
		hub.patch(t, applications, "addons", map[string]any{"spec": map[string]any{"destination": map[string]any{"name": "hub"}}})
		start := time.Now()
		lines, err := a.Unregister(t.Context(), engine.Departure{Cluster: "prod", Spoke: prodSpoke}, func(string) {})
		if err != nil || len(lines) != 2 {
			t.Errorf("%q, %v", lines, err)
		}
		if waited := time.Since(start); waited > 5*time.Second {
			t.Errorf("waited %s", waited)
		}
	})
}

func TestUnregisterRemaining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, hub, _ := newFake(t, object("addons", newCommit, "Synced", "Healthy", ""), object("prod-podinfo", newCommit, "Synced", "Healthy", ""), clusterSecret("prod", "homelab"))
		hub.patch(t, applications, "addons", map[string]any{"spec": map[string]any{"destination": map[string]any{"name": "hub"}}})
		start := time.Now()
		lines, err := a.Unregister(t.Context(), engine.Departure{Cluster: "prod", Spoke: prodSpoke}, func(string) {})
		want := []string{"cluster prod keeps the objects of prod-podinfo", "cluster prod is no longer registered"}
		if err != nil || !slices.Equal(lines, want) {
			t.Errorf("%q, %v", lines, err)
		}
		if waited := time.Since(start); waited > 5*time.Second {
			t.Errorf("waited %s", waited)
		}
	})
}

func TestUnregisterUnreachable(t *testing.T) {
	a, hub, _ := newFake(t, clusterSecret("prod", "homelab"), object("prod-podinfo", newCommit, "Synced", "Healthy", ""), object("addons", newCommit, "Synced", "Healthy", ""))
	hub.patch(t, applications, "addons", map[string]any{"spec": map[string]any{"destination": map[string]any{"name": "hub"}}})
	hub.patch(t, applications, "prod-podinfo", map[string]any{"metadata": map[string]any{
		"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []string{"resources-finalizer.argocd.argoproj.io"},
	}})
	lines, err := a.Unregister(t.Context(), engine.Departure{Cluster: "prod", Spoke: nil}, func(string) {})
	want := []string{"cluster prod is no longer registered", "application prod-podinfo is abandoned, its objects stay"}
	if err != nil || !slices.Equal(lines, want) || !gone(t, hub) {
		t.Errorf("%q, %v", lines, err)
	}
	if f := hub.Get(t, applications, Namespace, "prod-podinfo").GetFinalizers(); len(f) != 0 {
		t.Errorf("finalizers %v", f)
	}
}

func TestUnregisterForeign(t *testing.T) {
	a, hub, _ := newFake(t, clusterSecret("prod", "other"))
	_, err := a.Unregister(t.Context(), engine.Departure{Cluster: "prod", Spoke: prodSpoke}, func(string) {})
	var e *lab.Error
	if !errors.As(err, &e) || e.Code != "not_ours" || e.Cure == "" {
		t.Errorf("%v", err)
	}
	if w := hub.Writes(); len(w) != 0 {
		t.Errorf("requests %v", w)
	}
	if lines, err := a.Unregister(t.Context(), engine.Departure{Cluster: "unknown", Spoke: prodSpoke}, func(string) {}); err != nil || len(lines) != 0 {
		t.Errorf("%v, %v", lines, err)
	}
}
