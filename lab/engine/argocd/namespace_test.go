package argocd

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab"
)

const removedNamespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: argocd, deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [kubernetes]}\n"

// Without controllers, Applications with finalizers keep a removed namespace terminating forever.
func TestInstallRemovedNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		removed := strings.Replace(object("prod-podinfo", newCommit, "Synced", "Healthy", ""), "metadata: {", "metadata: {deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [x], ", 1)
		mine := "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: mine, namespace: argocd, finalizers: [x]}\nspec: {}\n"
		a, hub, _ := newFake(t, removedNamespace, removed, mine)
		a.release = &fakeRelease{}
		if s, err := a.Observe(t.Context()); err != nil || s.Installed() || len(s.Registrations) > 0 {
			t.Errorf("terminating engine observed as %+v, %v", s, err)
		}
		var progress []string
		done := make(chan error, 1)
		go func() {
			_, err := a.Install(t.Context(), chart, nil, func(line string) { progress = append(progress, line) })
			done <- err
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		if left := hub.Get(t, applications, Namespace, "prod-podinfo").GetFinalizers(); len(left) > 0 {
			t.Errorf("finalizers left over: %v", left)
		}
		if left := hub.Get(t, applications, Namespace, "mine").GetFinalizers(); len(left) != 1 {
			t.Errorf("object not being deleted lost its finalizer")
		}
		if err := hub.Resource(namespaces).Delete(t.Context(), Namespace, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if hub.Get(t, namespaces, "", Namespace).GetDeletionTimestamp() != nil {
			t.Error("namespace was not recreated")
		}
		if !slices.ContainsFunc(progress, func(l string) bool { return strings.Contains(l, "waiting for the removal") }) {
			t.Errorf("progress %q", progress)
		}
	})
}

func TestInstallStuckNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := newFake(t, removedNamespace)
		_, err := a.Register(t.Context(), lab.Registration{Cluster: "prod", Server: "https://prod:6443"}, nil)
		var e *lab.Error
		if !errors.As(err, &e) || e.Code != "namespace_stuck" || e.Exit != lab.ExitTimeout || !strings.Contains(e.Cure, "kubectl get namespace argocd") {
			t.Errorf("%v", err)
		}
	})
}
