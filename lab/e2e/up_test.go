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

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/ui"
)

// converged checks `lab status -o json` of a converged lab.
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
	s.Applications = slices.DeleteFunc(s.Applications, func(a lab.Application) bool { return a.LeftOut != "" })
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

// firstUp plans the default estate, which writes nothing, and brings it up.
func firstUp(t *testing.T, l *testLab) {
	l.must("up", "--dry-run")
	if _, err := os.Stat(filepath.Join(l.state, "lab", l.name)); !os.IsNotExist(err) {
		t.Errorf("the plan wrote to %s: %v", l.state, err)
	}
	out := decode[ui.UpResult](l, "up", "--fix")
	if len(out.Changed) == 0 {
		t.Error("first up changed nothing")
	}
	for _, s := range out.Steps {
		t.Logf("%-12s %-8s %6.1fs  %s", s.Name, s.Cluster, s.Seconds, s.Result)
	}
	l.converged(4, 10)
}

// colleagueDown is finalDown after a commit that only the forge has: it is listed, and kept until the word is given.
func colleagueDown(t *testing.T, l *testLab) {
	const file, message = "environments/dev/environment.yaml", "from a colleague"
	committed(t, l, file, message, func(text string) string { return text + "# theirs\n" })
	for _, found := range []ui.OnlyInForge{decode[ui.Status](l, "status").OnlyInForge, decode[ui.PlanResult](l, "down", "--dry-run").OnlyInForge} {
		if c := found.Commits; len(c) != 1 || c[0].Author != "Another Person" || !strings.HasPrefix(c[0].Message, message) || !slices.Equal(c[0].Files, []string{file}) {
			t.Errorf("only in the forge: %+v", found)
		}
	}
	if text := l.must("status").stdout; !strings.Contains(text, "only in the forge: 1 commit; lab down --dry-run lists it") {
		t.Errorf("status: %s", text)
	}
	for _, halt := range []string{"", "stop", "pause"} {
		if halt != "" {
			docker(t, halt, lab.ForgeName(l.name))
		}
		refused := l.fails(lab.ExitInvalid, "would_lose", "down")
		if !strings.Contains(strings.Join(refused.Details, "\n"), message) || !strings.HasSuffix(refused.Cure, "lab down --lose-commits") {
			t.Errorf("refused after %q with %+v", halt, refused)
		}
		if log := l.must("git", "log").stdout; !strings.Contains(log, message) {
			t.Errorf("after a refusal, the log is %s", log)
		}
	}
	finalDown(t, l)
}

// finalDown takes the lab down and checks for leftovers.
func finalDown(t *testing.T, l *testLab) {
	l.must("down", "--lose-commits")
	if left := l.leftovers(); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
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
				t.Error("prod is registered with a certificate, not a token")
			}
			for key, want := range map[string]string{"aws_account_id": "210987654321", "environment": "prod", "cluster_name": "prod", "addons_repo_path": "addons"} {
				if got := s.Annotations[key]; got != want {
					t.Errorf("annotation %s is %q, want %q", key, got, want)
				}
			}
		}
	}
}

// resourceVersions returns versions of everything that lab could have changed: on the hub all objects with its or Argo CD's label, in spokes those that it created.
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
	t.Logf("second up took %.2fs", out.Seconds)
	if diff := cmp.Diff(before, l.resourceVersions(t.Context())); diff != "" {
		t.Errorf("objects changed (-before +after):\n%s", diff)
	}
	if after := helmRevisions(t, l); !slices.Equal(revisions, after) {
		t.Errorf("helm revisions %v, then %v", revisions, after)
	}
	if text := l.must("up"); !strings.Contains(text.stdout+text.stderr, "is up to date") {
		t.Errorf("up to date is not reported:\n%s%s", text.stdout, text.stderr)
	}
}

// secondLab brings up another lab and takes it down, leaving the first one unchanged.
func secondLab(t *testing.T, first *testLab) {
	engine := first.engine()
	before, objects := containers(t, first.name+"-", "lab-"+first.name+"-"), first.resourceVersions(t.Context())
	second := newLab(t, "e2e-two", "hub")
	second.must("generate")
	second.must("up", "--engine", string(engine))
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

// containers returns the containers with a prefix, except those of labs with a longer name, with properties that a recreation or restart would change.
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
