//go:build e2e

package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab"
	"homelab/lab/ui"
)

// Versions that a user may still run: the oldest that this machine builds
const (
	olderEngine     = "3.2"
	olderKubernetes = "1.32"
)

// newVersions returns a lab whose hub has an older engine, and whose spoke an older Kubernetes.
func newVersions(t *testing.T) *testLab {
	l := newLab(t, "e2e-versions", "hub", "dev")
	l.edit("clusters/hub/cluster.yaml", "engine: {type: argocd}", "engine: {type: argocd, version: "+olderEngine+"}")
	l.edit("clusters/dev/cluster.yaml", "  kind:", "  kubernetes: "+olderKubernetes+"\n  kind:")
	return l
}

// versions returns the version of the engine, and of Kubernetes by cluster.
func (l *testLab) versions() (engine string, kubernetes map[string]string) {
	l.t.Helper()
	kubernetes = map[string]string{}
	for _, c := range decode[ui.Status](l, "status").Clusters {
		kubernetes[c.Name] = lab.Minor(c.Kubernetes)
	}
	d, err := l.kube("hub").AppsV1().Deployments("argocd").Get(l.t.Context(), "argocd-server", metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	_, engine, _ = strings.Cut(d.Spec.Template.Spec.Containers[0].Image, ":v")
	return engine, kubernetes
}

func olderUp(t *testing.T, l *testLab) {
	out := l.must("up", "--fix")
	if want := "Argo CD 3.2.11 is no longer supported upstream: 2026-08-04"; !strings.Contains(out.stderr, want) {
		t.Errorf("the output lacks %s:\n%s", want, out.stderr)
	}
	l.converged(2, 4)
	if engine, kubernetes := l.versions(); lab.Minor(engine) != olderEngine || kubernetes["dev"] != olderKubernetes || kubernetes["hub"] != lab.KubernetesVersion {
		t.Errorf("engine %s, kubernetes %v", engine, kubernetes)
	}
	l.checkIdle()
}

// kubernetesChanged expects that another Kubernetes is refused, as kind cannot change an existing cluster, and that nothing is touched.
func kubernetesChanged(t *testing.T, l *testLab) {
	l.edit("clusters/dev/cluster.yaml", "kubernetes: "+olderKubernetes, "kubernetes: "+lab.KubernetesVersion)
	refused := l.fails(lab.ExitFailed, "recreate", "up")
	if !strings.Contains(refused.Message, "spec.kubernetes changed in dev") || !strings.Contains(refused.Cure, "lab up --recreate dev") {
		t.Errorf("refused with %+v", refused)
	}
	l.edit("clusters/dev/cluster.yaml", "kubernetes: "+lab.KubernetesVersion, "kubernetes: "+olderKubernetes)
	l.checkIdle()
	l.edit("clusters/dev/cluster.yaml", "kubernetes: "+olderKubernetes, "kubernetes: 1.9")
	if unknown := l.fails(lab.ExitInvalid, "no_version", "up", "--dry-run"); len(unknown.Problems) != 1 || unknown.Problems[0].File != "clusters/dev/cluster.yaml" {
		t.Errorf("an unknown version: %+v", unknown)
	}
	l.edit("clusters/dev/cluster.yaml", "kubernetes: 1.9", "kubernetes: "+olderKubernetes)
}

// upgradeRehearsed rehearses the newest version, with another way of tracking; afterwards, all is as before.
func upgradeRehearsed(t *testing.T, l *testLab) {
	l.canary("dev")
	canaries := l.canaryIdentities("dev")
	before, _ := l.versions()
	with := "{type: argocd, version: " + olderEngine + ", values: {configs: {cm: {application.resourceTrackingMethod: label}}}}"
	l.edit("clusters/hub/cluster.yaml", "{type: argocd, version: "+olderEngine+"}", with)
	report := l.run("rehearse", "upgrade", "--engine-version", "newest", "--check", "-o", "json")
	var out ui.RehearseResult
	if err := json.Unmarshal([]byte(report.stdout), &out); err != nil || report.code != int(lab.ExitUnmet) {
		t.Fatalf("exit %d, %v\n%s", report.code, err, report.stderr)
	}
	l.edit("clusters/hub/cluster.yaml", with, "{type: argocd, version: "+olderEngine+"}")
	t.Logf("%.0fs: %+v", out.Seconds, out.Upgrade)
	if u := out.Upgrade; lab.Minor(u.From) != olderEngine || u.To == u.From || u.Objects < 10 || len(u.Retracked) == 0 || len(u.Replaced)+len(u.Deleted)+len(u.Orphaned) > 0 {
		t.Errorf("%+v", u)
	}
	if after, _ := l.versions(); after != before {
		t.Errorf("back at %s, want %s", after, before)
	}
	if left := decode[ui.SnapshotListResult](l, "snapshot", "ls").Snapshots; len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
	l.checkCanaries(canaries, "dev")
	l.converged(2, 4)
	l.checkIdle()
	if out := decode[ui.RehearseResult](l, "rehearse", "upgrade"); out.Upgrade.From != "" {
		t.Errorf("nothing to do: %+v", out)
	}
}

// engineUpgraded upgrades the engine, and goes back by the snapshot taken first.
func engineUpgraded(t *testing.T, l *testLab) {
	for _, c := range []string{"hub", "dev"} {
		l.canary(c)
	}
	canaries := l.canaryIdentities("hub", "dev")
	before, _ := l.versions()

	var due []string
	for _, s := range decode[ui.PlanResult](l, "up", "--engine-version", "newest", "--dry-run").Steps {
		if s.Action != "none" {
			due = append(due, s.ID+" "+s.Reason)
		}
	}
	if !slices.ContainsFunc(due, func(s string) bool { return strings.HasPrefix(s, "engine "+before+" -> ") }) {
		t.Errorf("the plan is %q", due)
	}
	up := decode[ui.UpResult](l, "up", "--engine-version", "newest", "--save", "before")
	t.Logf("upgrade: %+v", up.Upgrade)
	after, _ := l.versions()
	if up.Upgrade.From != before || up.Upgrade.To != after || after == before || up.Upgrade.Objects < 10 || up.Upgrade.Pods < 10 {
		t.Errorf("from %s to %s: %+v", before, after, up.Upgrade)
	}
	if u := up.Upgrade; len(u.OutOfSync)+len(u.Gone)+len(u.Replaced)+len(u.Deleted)+len(u.Orphaned)+len(u.Restarted) > 0 {
		t.Errorf("the upgrade changed %+v", u)
	}
	l.checkCanaries(canaries, "hub", "dev")
	l.converged(2, 4)
	l.checkIdle()

	l.must("snapshot", "restore", "before")
	if back, _ := l.versions(); back != before {
		t.Errorf("back at %s, want %s", back, before)
	}
	l.checkCanaries(canaries, "hub", "dev")
	l.converged(2, 4)
	l.checkIdle()
	l.must("snapshot", "rm", "before")
}
