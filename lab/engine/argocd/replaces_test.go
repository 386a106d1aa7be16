package argocd

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

func TestReplaces(t *testing.T) {
	marked := strings.Replace(object("argocd", newCommit, "Synced", "Healthy", ""), "metadata: {", `metadata: {annotations: {`+skipReconcile+`: "true", `+lab.AnnotationReplaces+`: "true"}, `, 1)
	theirs := strings.Replace(object("web", newCommit, "Synced", "Healthy", ""), "metadata: {", `metadata: {annotations: {`+skipReconcile+`: "true"}, `, 1)
	a, hub, _ := newFake(t, marked+"---"+theirs)
	hub.Typed.Resources = []*metav1.APIResourceList{{GroupVersion: kube.Admission.String(), APIResources: []metav1.APIResource{{Name: kube.MutatingPolicies.Resource}}}}
	root := engine.Root{Manifest: []byte(rootManifest), Replaces: []string{"argocd"}}
	apply := func(want ...bool) {
		t.Helper()
		for _, want := range want {
			if changed, err := a.ApplyRoot(t.Context(), root); err != nil || changed != want {
				t.Errorf("changed %t, %v; want %t", changed, err, want)
			}
		}
	}
	skipped := func(name string) bool {
		return hasKey(hub.Get(t, applications, Namespace, name).GetAnnotations(), skipReconcile)
	}
	if err := a.Guard(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	if names := hub.Names(t, kube.MutatingPolicies, ""); len(names) != 1 {
		t.Errorf("guarded by %q", names)
	}
	apply(true, false)
	policy := hub.Get(t, kube.MutatingPolicies, "", "lab-homelab-replaces")
	if spec := toYAML(t, policy.Object["spec"]); !strings.Contains(spec, `object.metadata.name in ["argocd"]`) || !strings.Contains(spec, "- applications\n") {
		t.Error(spec)
	}
	if err := hub.Resource(kube.MutatingBindings).Delete(t.Context(), "lab-homelab-replaces", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if lines, err := a.Drift(t.Context(), root, nil); err != nil || !slices.Contains(lines, "mutatingadmissionpolicybinding lab-homelab-replaces is gone") {
		t.Errorf("%q, %v", lines, err)
	}
	apply(true, false)
	if !skipped("argocd") {
		t.Error("argocd released")
	}
	root.Replaces = nil
	apply(true, false)
	if names := hub.Names(t, kube.MutatingPolicies, ""); len(names) > 0 {
		t.Errorf("left %q", names)
	}
	if skipped("argocd") || !skipped("web") {
		t.Error("the annotation of argocd stays, or that of web does not")
	}
}

// Where such policies are not served, the root is applied without.
func TestReplacesNotServed(t *testing.T) {
	a, _, _ := newFake(t)
	if changed, err := a.ApplyRoot(t.Context(), engine.Root{Manifest: []byte(rootManifest), Replaces: []string{"argocd"}}); err != nil || !changed {
		t.Errorf("%t, %v", changed, err)
	}
}
