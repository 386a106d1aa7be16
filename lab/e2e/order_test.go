//go:build e2e

package e2e

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab"
)

// ordered brings up an estate in which podinfo waits for metrics-server, which becomes ready long after it is applied, and checks the order.
func ordered(t *testing.T, engine lab.EngineType) {
	l := newLab(t, "e2e-order", "hub", "dev")
	l.edit("addons/podinfo/applicationset.yaml", "  name: podinfo\n  namespace: argocd\n", "  name: podinfo\n  namespace: argocd\n  annotations: {argocd.argoproj.io/sync-wave: \"1\"}\n")
	l.edit("addons/podinfo/flux/release.yaml", "spec:\n", "spec:\n  dependsOn: [{name: metrics-server}]\n")
	l.must("generate")
	began := time.Now()
	l.must("up", "--engine", string(engine))
	t.Logf("%s: up in %.0fs", engine, time.Since(began).Seconds())
	l.converged(2, 4)
	first, then := deployment(t, l, "kube-system", "metrics-server"), deployment(t, l, "podinfo", "podinfo")
	ready := time.Time{}
	for _, c := range first.Status.Conditions {
		if c.Type == appsv1.DeploymentAvailable {
			ready = c.LastTransitionTime.Time
		}
	}
	applied := then.CreationTimestamp.Time
	t.Logf("metrics-server applied at %s, ready at %s, podinfo applied at %s", first.CreationTimestamp.Format(time.TimeOnly), ready.Format(time.TimeOnly), applied.Format(time.TimeOnly))
	if ready.IsZero() || applied.Before(ready) {
		t.Errorf("podinfo was applied at %s, before metrics-server was ready at %s", applied, ready)
	}
	l.checkIdle()
	finalDown(t, l)
}

func deployment(t *testing.T, l *testLab, namespace, name string) *appsv1.Deployment {
	t.Helper()
	d, err := l.kube("dev").AppsV1().Deployments(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
