package argocd

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

// A root's extra objects are applied with it, reported when missing, and deleted when no longer needed.
func TestApplyRootExtras(t *testing.T) {
	a, hub, _ := newFake(t)
	extra := func(kind, apiVersion, name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{
			"name": name, "namespace": Namespace, "labels": map[string]any{lab.LabelName: a.lab, lab.LabelPart: kube.ExtraPart},
		}}}
	}
	root := engine.Root{
		Manifest: []byte("apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: root}\nspec: {source: {repoURL: x}}\n"),
		Extra:    []*unstructured.Unstructured{extra("ConfigMap", "v1", "front"), extra("Deployment", "apps/v1", "front"), extra("Service", "v1", "front")},
	}
	stray := func(want ...string) {
		t.Helper()
		if got, err := a.Drift(t.Context(), root, nil); err != nil || !slices.Equal(got, want) {
			t.Errorf("drift %q, %v; want %q", got, err, want)
		}
	}
	root.Extra[1].Object["status"] = map[string]any{"replicas": int64(1), "updatedReplicas": int64(1), "availableReplicas": int64(1)}
	stray("configmap front is gone", "deployment front is gone", "service front is gone", "application root is gone")
	for _, want := range []bool{true, false} {
		if changed, err := a.ApplyRoot(t.Context(), root); err != nil || changed != want {
			t.Errorf("changed %t, %v; want %t", changed, err, want)
		}
	}
	stray()
	deployments := hub.Resource(kube.ExtraKinds["Deployment"]).Namespace(Namespace)
	if err := deployments.Delete(t.Context(), "front", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	stray("deployment front is gone")
	foreign := extra("ConfigMap", "v1", "hers")
	foreign.SetLabels(nil)
	if _, err := hub.Resource(kube.ExtraKinds["ConfigMap"]).Namespace(Namespace).Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	root.Extra = nil
	if changed, err := a.ApplyRoot(t.Context(), root); err != nil || !changed {
		t.Errorf("changed %t, %v", changed, err)
	}
	list, err := hub.Resource(kube.ExtraKinds["ConfigMap"]).Namespace(Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "hers" {
		t.Errorf("left %v, %v", list, err)
	}
	root.Extra = []*unstructured.Unstructured{extra("Job", "batch/v1", "front")}
	if _, err := a.ApplyRoot(t.Context(), root); err == nil {
		t.Error("a Job was accepted")
	}
}
