//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"homelab/lab/ui"
)

// only checks that an up changed the steps with these titles.
func only(t *testing.T, out ui.UpResult, want ...string) {
	t.Helper()
	got := slices.Sorted(slices.Values(out.Changed))
	if want = slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
		t.Errorf("changed %v, want %v", got, want)
	}
}

func edits(t *testing.T, l *testLab) {
	before := roleARN(t, l, "prod")
	devBefore := roleARN(t, l, "dev")
	l.edit("clusters/prod/cluster.yaml", "region: eu-west-1", "region: us-east-2")
	var due []string
	for _, step := range decode[ui.PlanResult](l, "up", "--dry-run").Steps {
		if step.Action != "none" {
			due = append(due, step.ID)
		}
	}
	if want := []string{"estate", "bridge/prod", "addons"}; !slices.Equal(due, want) {
		t.Errorf("plan changes %v, want %v", due, want)
	}
	only(t, decode[ui.UpResult](l, "up"), "estate", "bridge prod", "addons")
	after := roleARN(t, l, "prod")
	t.Logf("role ARN: %s -> %s", before, after)
	if !strings.Contains(after, "us-east-2") || strings.Contains(after, "eu-west-1") {
		t.Errorf("role ARN %s, then %s, want the new region in it", before, after)
	}
	if got := roleARN(t, l, "dev"); got != devBefore {
		t.Errorf("dev's role ARN changed: %s", got)
	}

	l.edit("clusters/prod/cluster.yaml", "podinfo: true", "podinfo: false")
	l.must("generate") // for Flux
	only(t, decode[ui.UpResult](l, "up"), "estate", "bridge prod", "addons")
	l.converged(4, 9)
	l.absent(t, "prod", "podinfo", "podinfo")
	if _, err := l.kube("dev").AppsV1().Deployments("podinfo").Get(t.Context(), "podinfo", metav1.GetOptions{}); err != nil {
		t.Errorf("podinfo removed from dev: %v", err)
	}

	l.edit("clusters/prod/cluster.yaml", "podinfo: false", "podinfo: true")
	l.must("generate") // for Flux
	only(t, decode[ui.UpResult](l, "up"), "estate", "bridge prod", "addons")
	l.converged(4, 10)

	l.edit("clusters/prod/addons/podinfo/values.yaml", "replicaCount: 2", "replicaCount: 3")
	only(t, decode[ui.UpResult](l, "up"), "estate", "addons")
	d, err := l.kube("prod").AppsV1().Deployments("podinfo").Get(t.Context(), "podinfo", metav1.GetOptions{})
	if err != nil || *d.Spec.Replicas != 3 || d.Status.ReadyReplicas != 3 {
		t.Errorf("replicas after up: %+v, %v", d.Status, err)
	}
}

// fromElsewhere adds an addon whose ApplicationSet was not written for lab, and whose Applications do not follow lab's naming.
func fromElsewhere(t *testing.T, l *testLab) {
	const off, on = "{podinfo: true", "{hello: true, podinfo: true"
	copyTree(t, "testdata/from-elsewhere/addons/hello", filepath.Join(l.estate, "addons", "hello"))
	l.edit("clusters/dev/cluster.yaml", off, on)
	l.edit("clusters/prod/cluster.yaml", off, on) // excluded by the ApplicationSet, with or without the label
	only(t, decode[ui.UpResult](l, "up"), "estate", "bridge dev", "bridge prod", "addons")
	found := false
	for _, a := range l.converged(4, 11).Applications {
		found = found || a.Name == "addon-dev-podinfo" && a.Addon == "hello" && a.Cluster == "dev" && a.Version == "6.7.0"
	}
	if !found {
		t.Error("status does not show addon-dev-podinfo as hello in dev")
	}
	if _, err := l.kube("dev").AppsV1().Deployments("hello").Get(t.Context(), "hello-podinfo", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{{"up"}, {"up", "--only", "dev"}} {
		if up := decode[ui.UpResult](l, args...); len(up.Changed) > 0 {
			t.Errorf("second %v changed %v", args, up.Changed)
		}
	}
	l.remove("addons/hello")
	l.edit("clusters/dev/cluster.yaml", on, off)
	l.edit("clusters/prod/cluster.yaml", on, off)
	l.must("up")
	l.converged(4, 10)
	l.absent(t, "dev", "hello", "hello-podinfo")
}

// renamed renames the app of apps and back. There is always one root, and its objects are kept despite a finalizer that requests their deletion.
func renamed(t *testing.T, l *testLab) {
	const file, finalizer = "addons/root.yaml", "finalizers: [resources-finalizer.argocd.argoproj.io]"
	synced := func() map[string]types.UID {
		uids := map[string]types.UID{}
		for cluster, kind := range map[string]schema.GroupVersionResource{
			"hub":  {Group: "argoproj.io", Version: "v1alpha1", Resource: "applicationsets"},
			"dev":  {Group: "apps", Version: "v1", Resource: "deployments"},
			"prod": {Group: "apps", Version: "v1", Resource: "deployments"},
		} {
			list, err := l.dynamic(cluster).Resource(kind).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range list.Items {
				uids[cluster+" "+o.GetName()] = o.GetUID()
			}
		}
		return uids
	}
	roots := func() []string {
		applications := schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
		list, err := l.dynamic("hub").Resource(applications).List(t.Context(), metav1.ListOptions{LabelSelector: "lab.homelab/part=root"})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, o := range list.Items {
			names = append(names, o.GetName())
		}
		return names
	}
	before := synced()
	for _, name := range []struct{ old, new, root string }{
		{"name: addons\n", "name: bootstrap\n  " + finalizer + "\n", "bootstrap"}, {"name: bootstrap\n  " + finalizer + "\n", "name: addons\n", "addons"},
	} {
		l.edit(file, name.old, name.new)
		only(t, decode[ui.UpResult](l, "up"), "estate", "addons")
		l.converged(4, 10)
		if got := roots(); !slices.Equal(got, []string{name.root}) {
			t.Errorf("root applications %v, want %s", got, name.root)
		}
		if up := decode[ui.UpResult](l, "up"); len(up.Changed) > 0 {
			t.Errorf("second up changed %v", up.Changed)
		}
	}
	if diff := cmp.Diff(before, synced()); diff != "" {
		t.Errorf("objects of the root (-before +after):\n%s", diff)
	}
}

// promoted promotes dev's version to staging with lab promote, in file and forge, and reverts it manually.
func promoted(t *testing.T, l *testLab) {
	const file = "addons/podinfo/applicationset.yaml"
	before, err := os.ReadFile(filepath.Join(l.estate, file))
	if err != nil {
		t.Fatal(err)
	}
	dry := l.must("promote", "podinfo", "--from", "dev", "--to", "staging", "--dry-run")
	if !strings.Contains(dry.stdout, "staging: podinfo 6.7.0 -> 6.9.2, as dev runs it (healthy)") || !strings.Contains(dry.stdout, "+++ b/"+file) {
		t.Errorf("dry run:\n%s", dry.stdout)
	}
	res := decode[ui.PromoteResult](l, "promote", "podinfo", "--from", "dev", "--to", "staging")
	if !res.Written || res.Commit != "" || res.Version != "6.9.2" {
		t.Errorf("%+v", res)
	}
	head := decode[ui.LogResult](l, "git", "log", "-n", "1").Commits[0].Commit
	if pushed := decode[ui.PromoteResult](l, "promote", "podinfo", "--from", "dev", "--to", "staging", "--push"); pushed.Written || pushed.Commit == "" || pushed.Commit == head {
		t.Errorf("a pin that was written is not pushed: %+v, head %s", pushed, head)
	}
	l.must("up") // waits for Argo CD
	if got := version(l.converged(4, 10), "staging-podinfo"); got != res.Version {
		t.Errorf("staging has podinfo %s after the promotion, want %s", got, res.Version)
	}
	l.write(file, string(before))
	only(t, decode[ui.UpResult](l, "up"), "estate", "addons")
	if got := version(l.converged(4, 10), "staging-podinfo"); got != "6.7.0" {
		t.Errorf("staging has podinfo %s after the revert, want 6.7.0", got)
	}
}

// left removes a cluster from the estate, and restores it.
func left(t *testing.T, l *testLab) {
	kept := filepath.Join(t.TempDir(), "staging")
	if err := os.Rename(filepath.Join(l.estate, "clusters", "staging"), kept); err != nil {
		t.Fatal(err)
	}
	only(t, decode[ui.UpResult](l, "up"), "estate", "addons") // kept without a flag
	born := l.born("staging")
	if out := l.must("up"); !strings.Contains(out.stderr, "lab up --prune") {
		t.Errorf("no hint how to remove it:\n%s", out.stderr)
	}
	if again := l.born("staging"); again != born {
		t.Errorf("staging was replaced: %s, then %s", born, again)
	}
	only(t, decode[ui.UpResult](l, "up", "--prune"), "bridge staging", "cluster staging", "addons")
	l.converged(3, 7)
	if there := containers(t, l.name+"-staging-"); len(there) > 0 {
		t.Errorf("left over: %v", there)
	}
	copyTree(t, kept, filepath.Join(l.estate, "clusters", "staging"))
	dry := decode[ui.PlanResult](l, "up", "--dry-run")
	only(t, decode[ui.UpResult](l, "up"), "estate", "bridge staging", "cluster staging", "addons")
	l.converged(4, 10)
	cameAsPlanned(t, l, "staging", dry)
}

// absent waits until a deployment is gone, shortly after Argo CD has deleted the Application.
func (l *testLab) absent(t *testing.T, cluster, namespace, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for tick := time.NewTicker(500 * time.Millisecond); ; {
		_, err := l.kube(cluster).AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("deployment %s is still in %s: %v", name, cluster, err)
		case <-tick.C:
		}
	}
}
