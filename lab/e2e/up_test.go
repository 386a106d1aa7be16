//go:build e2e

package e2e

import (
	"context"
	"fmt"
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

	"homelab/lab"
	"homelab/lab/ui"
)

// converged asserts what `lab status -o json` must say of a lab that is up.
func (l *testLab) converged(clusters, applications int) ui.Status {
	l.t.Helper()
	s := decode[ui.Status](l, "status")
	if len(s.Clusters) != clusters {
		l.t.Errorf("%d clusters, want %d: %+v", len(s.Clusters), clusters, s.Clusters)
	}
	for _, c := range s.Clusters {
		if !c.Ready {
			l.t.Errorf("cluster %s is not ready: %+v", c.Name, c)
		}
	}
	if len(s.Applications) != applications {
		l.t.Errorf("%d applications, want %d: %+v", len(s.Applications), applications, s.Applications)
	}
	for _, a := range s.Applications {
		if a.Sync != "Synced" || a.Health != "Healthy" {
			l.t.Errorf("application %s is %s and %s: %s", a.Name, a.Sync, a.Health, a.Message)
		}
	}
	return s
}

func version(s ui.Status, application string) string {
	for _, a := range s.Applications {
		if a.Name == application {
			return a.Version
		}
	}
	return ""
}

// TestDefaultEstate follows one lab from nothing to gone: the order of its subtests is that of a person's first day.
func TestDefaultEstate(t *testing.T) {
	l := newLab(t, "e2e")
	sub := func(name string, f func(t *testing.T)) {
		t.Helper()
		if !t.Run(name, func(t *testing.T) { l.within(t, func(t *testing.T, _ *testLab) { f(t) }) }) {
			t.FailNow()
		}
	}
	sub("up", func(t *testing.T) {
		out := decode[ui.UpResult](l, "up", "--fix")
		if len(out.Changed) == 0 {
			t.Error("nothing changed in the first up")
		}
		for _, s := range out.Steps {
			t.Logf("%-12s %-8s %6.1fs  %s", s.Name, s.Cluster, s.Seconds, s.Result)
		}
		l.converged(4, 10)
	})
	sub("the versions are pinned by environment", func(t *testing.T) { pinned(t, l) })
	sub("the values are layered", func(t *testing.T) { layered(t, l) })
	sub("a spoke carries its bridge", func(t *testing.T) { bridged(t, l) })
	sub("up again does nothing", func(t *testing.T) { untouched(t, l) })
	sub("every command of the documents works", func(t *testing.T) { documented(t, l) })
	sub("a broken estate is refused", func(t *testing.T) { brokenEstate(t, l) })
	sub("another lab beside it", func(t *testing.T) { secondLab(t, l) })
	sub("every story is played", func(t *testing.T) { stories(t, l) })
	sub("every verb is played", func(t *testing.T) { everyVerb(t, l) })
	sub("an interrupted story leaves the lab as it was", func(t *testing.T) { interrupted(t, l) })
	sub("sabotage is noticed", func(t *testing.T) { sabotage(t, l) })
	sub("a version is promoted", func(t *testing.T) { promoted(t, l) })
	sub("commits in the forge are kept", func(t *testing.T) { commitsInTheForge(t, l) })
	sub("a region, a label, a replica count", func(t *testing.T) { edits(t, l) })
	sub("a fault is mended", func(t *testing.T) { mended(t, l) })
	sub("an addon comes from elsewhere", func(t *testing.T) { fromElsewhere(t, l) })
	sub("the root application is renamed", func(t *testing.T) { renamed(t, l) })
	sub("a cluster leaves the estate", func(t *testing.T) { left(t, l) })
	sub("what was removed by hand comes back", func(t *testing.T) { removedByHand(t, l) })
	sub("a removed engine is made anew", func(t *testing.T) { engineRemoved(t, l) })
	sub("a reboot is survived", func(t *testing.T) { rebooted(t, l) })
	sub("down leaves nothing", func(t *testing.T) {
		l.must("down")
		if left := l.leftovers(); len(left) > 0 {
			t.Errorf("left over: %v", left)
		}
	})
}

func pinned(t *testing.T, l *testLab) {
	s := l.converged(4, 10)
	for cluster, want := range map[string]string{"dev": "6.9.2", "prod": "6.7.0"} {
		if got := version(s, cluster+"-podinfo"); got != want {
			t.Errorf("%s has podinfo %s, want %s", cluster, got, want)
		}
		d, err := l.kube(cluster).AppsV1().Deployments("podinfo").Get(t.Context(), "podinfo", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if image := d.Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(image, ":"+want) {
			t.Errorf("%s runs %s, want %s", cluster, image, want)
		}
	}
}

func layered(t *testing.T, l *testLab) {
	d, err := l.kube("prod").AppsV1().Deployments("podinfo").Get(t.Context(), "podinfo", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := *d.Spec.Replicas; got != 2 {
		t.Errorf("prod has %d replicas, want the 2 of clusters/prod", got)
	}
}

func roleARN(t *testing.T, l *testLab, cluster string) string {
	t.Helper()
	sa, err := l.kube(cluster).CoreV1().ServiceAccounts("identity").Get(t.Context(), "identity", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return sa.Annotations["eks.amazonaws.com/role-arn"]
}

func bridged(t *testing.T, l *testLab) {
	if arn := roleARN(t, l, "prod"); !strings.HasPrefix(arn, "arn:aws:iam::210987654321:role/") {
		t.Errorf("role ARN in prod is %q", arn)
	}
	secrets, err := l.kube("hub").CoreV1().Secrets("argocd").List(t.Context(), metav1.ListOptions{LabelSelector: "argocd.argoproj.io/secret-type=cluster"})
	if err != nil || len(secrets.Items) != 4 {
		t.Fatalf("%d cluster secrets, %v", len(secrets.Items), err)
	}
	for _, s := range secrets.Items {
		if name := string(s.Data["name"]); name == "prod" {
			if server := string(s.Data["server"]); server != "https://e2e-prod-control-plane:6443" {
				t.Errorf("prod is registered as %s", server)
			}
			if strings.Contains(string(s.Data["config"]), "certData") {
				t.Error("prod is registered by a certificate, not by a token")
			}
			for key, want := range map[string]string{"aws_account_id": "210987654321", "environment": "prod", "cluster_name": "prod", "addons_repo_path": "addons"} {
				if got := s.Annotations[key]; got != want {
					t.Errorf("annotation %s is %q, want %q", key, got, want)
				}
			}
		}
	}
}

// resourceVersions of everything that lab could have touched: in the hub all that carries its label or Argo CD's, in spokes what it put there.
func (l *testLab) resourceVersions(ctx context.Context) map[string]string {
	l.t.Helper()
	versions := map[string]string{}
	for _, cluster := range []string{"hub", "dev", "staging", "prod"} {
		for _, r := range []schema.GroupVersionResource{
			{Version: "v1", Resource: "secrets"},
			{Version: "v1", Resource: "serviceaccounts"},
			{Version: "v1", Resource: "configmaps"},
			{Version: "v1", Resource: "services"},
			{Version: "v1", Resource: "namespaces"},
			{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
			{Group: "argoproj.io", Version: "v1alpha1", Resource: "applicationsets"},
		} {
			list, err := l.dynamic(cluster).Resource(r).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue // spokes have no ApplicationSets
			}
			if err != nil {
				l.t.Fatal(err)
			}
			for _, o := range list.Items {
				versions[fmt.Sprintf("%s %s %s/%s", cluster, r.Resource, o.GetNamespace(), o.GetName())] = o.GetResourceVersion()
			}
		}
	}
	return versions
}

func helmRevisions(t *testing.T, l *testLab) []string {
	t.Helper()
	secrets, err := l.kube("hub").CoreV1().Secrets("argocd").List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range secrets.Items {
		names = append(names, s.Name)
	}
	return names
}

func untouched(t *testing.T, l *testLab) {
	before, revisions := l.resourceVersions(t.Context()), helmRevisions(t, l)
	out := decode[ui.UpResult](l, "up")
	if len(out.Changed) != 0 {
		t.Errorf("changed: %v", out.Changed)
	}
	t.Logf("up again took %.2fs", out.Seconds)
	if diff := cmp.Diff(before, l.resourceVersions(t.Context())); diff != "" {
		t.Errorf("objects were touched (-before +after):\n%s", diff)
	}
	if after := helmRevisions(t, l); !slices.Equal(revisions, after) {
		t.Errorf("helm revisions %v, then %v", revisions, after)
	}
	if text := l.must("up"); !strings.Contains(text.stdout+text.stderr, "is up to date") {
		t.Errorf("nothing says that it is up to date:\n%s%s", text.stdout, text.stderr)
	}
}

// only asserts that an up changed these titles and no other.
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
		t.Errorf("the plan is to change %v, want %v", due, want)
	}
	only(t, decode[ui.UpResult](l, "up"), "estate", "bridge prod", "addons")
	after := roleARN(t, l, "prod")
	t.Logf("role ARN: %s -> %s", before, after)
	if !strings.Contains(after, "us-east-2") || strings.Contains(after, "eu-west-1") {
		t.Errorf("role ARN %s, then %s, want the new region in it", before, after)
	}
	if got := roleARN(t, l, "dev"); got != devBefore {
		t.Errorf("dev's role ARN changed as well: %s", got)
	}

	l.edit("clusters/prod/cluster.yaml", "podinfo: true", "podinfo: false")
	only(t, decode[ui.UpResult](l, "up"), "estate", "bridge prod", "addons")
	l.converged(4, 9)
	l.absent(t, "prod", "podinfo", "podinfo")
	if _, err := l.kube("dev").AppsV1().Deployments("podinfo").Get(t.Context(), "podinfo", metav1.GetOptions{}); err != nil {
		t.Errorf("podinfo went from dev as well: %v", err)
	}

	l.edit("clusters/prod/cluster.yaml", "podinfo: false", "podinfo: true")
	only(t, decode[ui.UpResult](l, "up"), "estate", "bridge prod", "addons")
	l.converged(4, 10)

	l.edit("clusters/prod/addons/podinfo/values.yaml", "replicaCount: 2", "replicaCount: 3")
	only(t, decode[ui.UpResult](l, "up"), "estate", "addons")
	d, err := l.kube("prod").AppsV1().Deployments("podinfo").Get(t.Context(), "podinfo", metav1.GetOptions{})
	if err != nil || *d.Spec.Replicas != 3 || d.Status.ReadyReplicas != 3 {
		t.Errorf("replicas after up: %+v, %v", d.Status, err)
	}
}

// fromElsewhere brings an addon whose ApplicationSet was not written for lab: what it generates goes by names of its own, and is known all the same.
func fromElsewhere(t *testing.T, l *testLab) {
	const off, on = "{podinfo: true", "{hello: true, podinfo: true"
	copyTree(t, "testdata/from-elsewhere/addons/hello", filepath.Join(l.estate, "addons", "hello"))
	l.edit("clusters/dev/cluster.yaml", off, on)
	l.edit("clusters/prod/cluster.yaml", off, on) // which the ApplicationSet leaves out, label or not
	only(t, decode[ui.UpResult](l, "up"), "estate", "bridge dev", "bridge prod", "addons")
	found := false
	for _, a := range l.converged(4, 11).Applications {
		found = found || a.Name == "addon-dev-podinfo" && a.Addon == "hello" && a.Cluster == "dev" && a.Version == "6.7.0"
	}
	if !found {
		t.Error("status does not know addon-dev-podinfo as hello in dev")
	}
	if _, err := l.kube("dev").AppsV1().Deployments("hello").Get(t.Context(), "hello-podinfo", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{{"up"}, {"up", "--only", "dev"}} {
		if up := decode[ui.UpResult](l, args...); len(up.Changed) > 0 {
			t.Errorf("%v again changed %v", args, up.Changed)
		}
	}
	l.remove("addons/hello")
	l.edit("clusters/dev/cluster.yaml", on, off)
	l.edit("clusters/prod/cluster.yaml", on, off)
	l.must("up")
	l.converged(4, 10)
	l.absent(t, "dev", "hello", "hello-podinfo")
}

// renamed gives the app of apps another name, and back: there is one root all the time, and what it syncs is neither removed nor made anew, although a finalizer
// asks for its removal.
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
			t.Errorf("up again changed %v", up.Changed)
		}
	}
	if diff := cmp.Diff(before, synced()); diff != "" {
		t.Errorf("what the root syncs (-before +after):\n%s", diff)
	}
}

// mended commits what the API server refuses, and then what it takes: the second lab up does not wait until Argo CD has given up the first.
func mended(t *testing.T, l *testLab) {
	const set, values, refresh = "addons/podinfo/applicationset.yaml", "clusters/prod/addons/podinfo/values.yaml", "refresh: true"
	l.edit(set, refresh, "refresh: false") // as most have it
	l.edit(values, "replicaCount: 3", "replicaCount: -3")
	out := l.run("up", "--timeout", "30s")
	if words := strings.Join(strings.Fields(out.stderr), " "); out.code != int(lab.ExitTimeout) || !strings.Contains(words, "must be greater than or equal to 0") {
		t.Errorf("exit %d\n%s", out.code, out.stderr)
	}
	l.edit(values, "replicaCount: -3", "replicaCount: 3")
	l.must("up", "--timeout", "1m") // by itself, Argo CD takes four
	l.converged(4, 10)
	l.edit(set, "refresh: false", refresh)
	l.must("up")
}

// promoted carries dev's version to staging by the command, in the estate's file and in the forge at once, and back by hand.
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
	res := decode[ui.PromoteResult](l, "promote", "podinfo", "--from", "dev", "--to", "staging", "--push")
	if !res.Written || res.Commit == "" || res.Version != "6.9.2" {
		t.Errorf("%+v", res)
	}
	l.must("up") // waits until Argo CD has followed
	if got := version(l.converged(4, 10), "staging-podinfo"); got != res.Version {
		t.Errorf("staging has podinfo %s after the promotion, want %s", got, res.Version)
	}
	l.write(file, string(before))
	only(t, decode[ui.UpResult](l, "up"), "estate", "addons")
	if got := version(l.converged(4, 10), "staging-podinfo"); got != "6.7.0" {
		t.Errorf("staging has podinfo %s after the way back, want 6.7.0", got)
	}
}

// left takes a cluster out of the estate, and puts it back.
func left(t *testing.T, l *testLab) {
	kept := filepath.Join(t.TempDir(), "staging")
	if err := os.Rename(filepath.Join(l.estate, "clusters", "staging"), kept); err != nil {
		t.Fatal(err)
	}
	only(t, decode[ui.UpResult](l, "up"), "estate", "bridge staging", "cluster staging", "addons")
	l.converged(3, 7)
	if there := containers(t, l.name+"-staging-"); len(there) > 0 {
		t.Errorf("left over: %v", there)
	}
	copyTree(t, kept, filepath.Join(l.estate, "clusters", "staging"))
	only(t, decode[ui.UpResult](l, "up"), "estate", "bridge staging", "cluster staging", "addons")
	l.converged(4, 10)
}

// removedByHand takes a cluster's node away, which Argo CD has not noticed when the next one stands in its place, and in another cluster Argo CD's rights.
func removedByHand(t *testing.T, l *testLab) {
	docker(t, "rm", "--force", "--volumes", l.name+"-dev-control-plane")
	if err := l.kube("staging").RbacV1().ClusterRoleBindings().Delete(t.Context(), "lab-argocd-manager", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	only(t, decode[ui.UpResult](l, "up"), "cluster dev", "bridge dev", "bridge staging", "addons")
	l.converged(4, 10)
	d, err := l.kube("dev").AppsV1().Deployments("podinfo").Get(t.Context(), "podinfo", metav1.GetOptions{})
	if err != nil || d.Status.AvailableReplicas == 0 {
		t.Errorf("lab up ended, and podinfo does not run in the new cluster: %v, %v", d.Status, err)
	}
	if up := decode[ui.UpResult](l, "up"); len(up.Changed) > 0 {
		t.Errorf("up again changed %v", up.Changed)
	}
}

// engineRemoved takes Argo CD's namespace away, in which nobody is left then to finish what Applications have finalizers for.
func engineRemoved(t *testing.T, l *testLab) {
	if err := l.kube("hub").CoreV1().Namespaces().Delete(t.Context(), "argocd", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	only(t, decode[ui.UpResult](l, "up"), "engine", "bridge hub", "bridge dev", "bridge staging", "bridge prod", "addons")
	l.converged(4, 10)
	if up := decode[ui.UpResult](l, "up"); len(up.Changed) > 0 {
		t.Errorf("up again changed %v", up.Changed)
	}
}

// rebooted ends every container of the lab at once, as a machine does that goes off; the next up starts them again.
func rebooted(t *testing.T, l *testLab) {
	docker(t, append([]string{"kill"}, strings.Fields(docker(t, "ps", "--quiet", "--filter", "network=lab-"+l.name))...)...)
	if s := decode[ui.Status](l, "status"); len(s.Clusters) != 4 || s.Clusters[0].Ready {
		t.Errorf("status of a lab that is off: %+v", s)
	}
	for _, want := range []bool{true, false} { // what is not asked for stays off, and is not waited for
		if up := decode[ui.UpResult](l, "up", "--only", "dev"); len(up.Changed) > 0 != want {
			t.Errorf("up --only dev changed %v, is it to change anything: %v", up.Changed, want)
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
		t.Errorf("up again changed %v", up.Changed)
	}
}

// absent waits until a deployment is gone: Argo CD forgets an Application when the spoke has taken the deletion, which ends a moment later.
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

// secondLab brings up another lab and takes it down: the first must not notice.
func secondLab(t *testing.T, first *testLab) {
	before, objects := containers(t, first.name+"-", "lab-"+first.name+"-"), first.resourceVersions(t.Context())
	second := newLab(t, "e2e-two", "hub")
	second.must("up")
	second.converged(1, 1)
	first.converged(4, 10)
	second.must("down")
	if left := second.leftovers(); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	if diff := cmp.Diff(before, containers(t, first.name+"-", "lab-"+first.name+"-")); diff != "" {
		t.Errorf("the first lab's containers changed:\n%s", diff)
	}
	if diff := cmp.Diff(objects, first.resourceVersions(t.Context())); diff != "" {
		t.Errorf("the first lab's objects changed (-before +after):\n%s", diff)
	}
	first.converged(4, 10)
}

// containers that start with a prefix and belong to no lab of a longer name, with what would change if they were made anew or started again.
func containers(t *testing.T, prefixes ...string) []string {
	t.Helper()
	var list []string
	for line := range strings.Lines(docker(t, "ps", "--all", "--no-trunc", "--format", "{{.Names}} {{.ID}} {{.State}}")) {
		name, _, _ := strings.Cut(line, " ")
		if !strings.Contains(name, "e2e-two") && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			list = append(list, strings.TrimSpace(line))
		}
	}
	slices.Sort(list)
	return list
}
