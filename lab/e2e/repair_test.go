//go:build e2e

package e2e

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab"
	"homelab/lab/ui"
)

// repaired commits a manifest that the API server rejects, and then a fix, which must not wait for Argo CD's retries of the first.
func repaired(t *testing.T, l *testLab) {
	const set, values, refresh = "addons/podinfo/applicationset.yaml", "clusters/prod/addons/podinfo/values.yaml", "refresh: true"
	l.edit(set, refresh, "refresh: false")              // the default
	l.edit(values, "replicaCount: ", "replicaCount: -") // any value
	out := l.run("up", "--timeout", "30s")
	if words := strings.Join(strings.Fields(out.stderr), " "); out.code != int(lab.ExitTimeout) || !strings.Contains(words, "must be greater than or equal to 0") {
		t.Errorf("exit %d\n%s", out.code, out.stderr)
	}
	l.edit(values, "replicaCount: -", "replicaCount: ")
	l.must("up", "--timeout", "1m") // Argo CD alone takes four
	l.converged(4, 10)
	l.edit(set, "refresh: false", refresh)
	l.must("up")
}

// removedByHand replaces a cluster's node unnoticed by Argo CD, and deletes Argo CD's rights in another cluster.
func removedByHand(t *testing.T, l *testLab) {
	docker(t, "rm", "--force", "--volumes", l.name+"-dev-control-plane")
	for _, a := range decode[ui.Status](l, "status").Applications {
		if doubted := a.Cluster == "dev"; doubted != (a.Sync == "Unknown") || doubted != (a.Message == "cluster dev does not answer; last seen Synced, Healthy") {
			t.Errorf("status of %s: %+v", a.Name, a)
		}
	}
	if err := l.kube("staging").RbacV1().ClusterRoleBindings().Delete(t.Context(), "lab-argocd-manager", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	only(t, decode[ui.UpResult](l, "up"), "cluster dev", "bridge dev", "bridge staging", "addons")
	l.converged(4, 10)
	d, err := l.kube("dev").AppsV1().Deployments("podinfo").Get(t.Context(), "podinfo", metav1.GetOptions{})
	if err != nil || d.Status.AvailableReplicas == 0 {
		t.Errorf("podinfo not running in the new cluster after lab up: %v, %v", d.Status, err)
	}
	if up := decode[ui.UpResult](l, "up"); len(up.Changed) > 0 {
		t.Errorf("second up changed %v", up.Changed)
	}
}

// engineRemoved deletes Argo CD's namespace, leaving no controller to process the finalizers of Applications.
func engineRemoved(t *testing.T, l *testLab) {
	if err := l.kube("hub").CoreV1().Namespaces().Delete(t.Context(), "argocd", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	only(t, decode[ui.UpResult](l, "up"), "engine", "bridge hub", "bridge dev", "bridge staging", "bridge prod", "addons")
	l.converged(4, 10)
	if up := decode[ui.UpResult](l, "up"); len(up.Changed) > 0 {
		t.Errorf("second up changed %v", up.Changed)
	}
}

// rebooted stops all containers of the lab, as a reboot does; the next up starts them.
func rebooted(t *testing.T, l *testLab) {
	halt(t, append([]string{"kill"}, strings.Fields(docker(t, "ps", "--quiet", "--filter", "network=lab-"+l.name))...)...)
	if s := decode[ui.Status](l, "status"); len(s.Clusters) != 4 || s.Clusters[0].Ready {
		t.Errorf("status of a stopped lab: %+v", s)
	}
	for _, want := range []bool{true, false} { // other clusters stay off, and are not waited for
		if up := decode[ui.UpResult](l, "up", "--only", "dev"); len(up.Changed) > 0 != want {
			t.Errorf("up --only dev changed %v, want changes: %v", up.Changed, want)
		}
	}
	for _, c := range decode[ui.Status](l, "status").Clusters {
		if want := c.Name == "hub" || c.Name == "dev"; c.Ready != want {
			t.Errorf("after up --only dev, cluster %s is ready: %v", c.Name, c.Ready)
		}
	}
	l.must("up")
	l.converged(4, 10)
	if up := decode[ui.UpResult](l, "up"); len(up.Changed) > 0 {
		t.Errorf("second up changed %v", up.Changed)
	}
}
