package cluster

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"homelab/lab"
)

// A terminating namespace is waited for, up to a limit.
func TestEnsureTerminatingNamespace(t *testing.T) {
	for _, removed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			now := metav1.Now()
			client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web", DeletionTimestamp: &now, Finalizers: []string{"a/b"}}}).CoreV1().Namespaces()
			if removed {
				time.AfterFunc(10*time.Second, func() { _ = client.Delete(t.Context(), "web", metav1.DeleteOptions{}) })
			}
			lines := 0
			created, err := ensureNamespace(t.Context(), client, "web", func(string) { lines++ })
			var stuck *lab.Error
			if created != removed || lines == 0 || (err == nil) != removed || !removed && (!errors.As(err, &stuck) || stuck.Cure == "") {
				t.Errorf("removed %t: created %t, %d lines, %v", removed, created, lines, err)
			}
		})
	}
}
