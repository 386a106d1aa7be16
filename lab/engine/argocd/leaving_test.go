package argocd

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"homelab/lab/argo"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

// cascaded returns the Applications marked for cascading deletion.
func cascaded(hub *cluster) []string {
	var names []string
	for _, act := range hub.Actions() {
		if p, ok := act.(clienttesting.PatchActionImpl); ok && p.GetResource() == applications && strings.Contains(string(p.GetPatch()), argo.Finalizer) {
			names = append(names, p.GetName())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Withdraw deletes only objects in the given clusters, whether addressed by name or server.
func TestWithdrawDestinations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, hub, spoke := newFake(t, clusterSecret("prod", "homelab"), object("addons", newCommit, "Synced", "Healthy", ""))
		spoke.create(t, spokeObjects)
		aimed(t, hub, "by-name", "prod", "")
		aimed(t, hub, "elsewhere", "other", "")
		for name, server := range map[string]string{"addons": "https://kubernetes.default.svc", "by-address": "https://prod", "other-address": "https://other"} {
			if name != "addons" {
				aimed(t, hub, name, "", "")
			}
			hub.patch(t, applications, name, map[string]any{
				"metadata": map[string]any{"finalizers": []string{"x"}}, "spec": map[string]any{"destination": map[string]any{"name": nil, "server": server}},
			})
		}
		hub.ClearActions()
		var progress []string
		if _, err := a.Withdraw(t.Context(), map[string]*rest.Config{"prod": {}}, func(s string) { progress = append(progress, s) }); err != nil {
			t.Fatal(err)
		}
		if got := cascaded(hub); !slices.Equal(got, []string{"by-address", "by-name"}) {
			t.Errorf("deleted with cascade %q", got)
		}
		if left := hub.names(t, applications); len(left) != 0 {
			t.Errorf("left on the hub: %q", left)
		}
		if len(progress) == 0 || progress[0] != "deleting the ApplicationSets" {
			t.Errorf("progress %q", progress)
		}
	})
}

// A terminating Application is left alone, as its kind of deletion was chosen by someone else.
func TestWithdrawTerminating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, hub, spoke := newFake(t, clusterSecret("prod", "homelab"), leavingApplication)
		spoke.create(t, spokeObjects)
		hub.ClearActions()
		if _, err := a.Withdraw(t.Context(), map[string]*rest.Config{"prod": {}}, silent); err != nil {
			t.Fatal(err)
		}
		if got := cascaded(hub); len(got) > 0 {
			t.Errorf("cascading deletion of %q", got)
		}
	})
}

// Argo CD's access is removed from a released cluster that answers.
func TestUnregisterAccess(t *testing.T) {
	for _, answers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			a, _, spoke := newFake(t, clusterSecret("prod", "homelab"))
			spoke.create(t, spokeObjects)
			spoke.ClearActions()
			at := prodSpoke
			if !answers {
				at = nil
			}
			if _, err := a.Unregister(t.Context(), engine.Departure{Cluster: "prod", Spoke: at, LivesOn: true}, silent); err != nil {
				t.Fatal(err)
			}
			_, err := spoke.Resource(roleBindings).Get(t.Context(), "lab-argocd-manager", metav1.GetOptions{})
			if apierrors.IsNotFound(err) != answers {
				t.Errorf("answers %t: %v", answers, err)
			}
			if _, err := spoke.Resource(roleBindings).Get(t.Context(), "foreign", metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// All Applications in a terminating namespace lose their finalizers; one may disappear meanwhile.
func TestInstallTerminatingNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manifests := []string{removedNamespace}
		for _, name := range []string{"a", "b", "c"} {
			manifests = append(manifests, strings.Replace(leavingApplication, "prod-podinfo", name, 1))
		}
		a, hub, _ := newFake(t, manifests...)
		done := make(chan error, 1)
		go func() { done <- a.ensureNamespace(t.Context(), hub, Namespace, silent) }()
		time.Sleep(100 * time.Millisecond)
		for _, name := range []string{"a", "b", "c"} {
			if left := hub.Get(t, applications, Namespace, name).GetFinalizers(); len(left) > 0 {
				t.Errorf("%s: finalizers %v", name, left)
			}
		}
		if err := hub.Resource(namespaces).Delete(t.Context(), Namespace, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := a.dropFinalizers(t.Context(), applications, "gone"); err != nil {
			t.Errorf("missing object: %v", err)
		}
	})
}

// A repository has its own proxy, and skips certificate verification only if allowed.
func TestRepositorySecret(t *testing.T) {
	a, hub, _ := newFake(t)
	repos := []engine.Repository{
		{Name: "plain", Type: "git", URL: "http://a"},
		{Name: "behind", Type: "git", URL: "https://b", Proxy: "http://front:8080", Insecure: true},
		{Name: "ssh", Type: "git", URL: "git@c:d/e", SSHKey: "a key", Proxy: "socks5://front:1080", Insecure: true},
	}
	if _, err := a.ApplyRepositories(t.Context(), repos); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][5]string{
		"repo-plain": {}, "repo-behind": {"http://front:8080", "true"}, "repo-ssh": {"socks5://front:1080", "true", "", "", "a key"},
	} {
		o := hub.Get(t, secrets, Namespace, name)
		if got := [5]string{kube.SecretField(o, "proxy"), kube.SecretField(o, "insecure"), kube.SecretField(o, "username"), kube.SecretField(o, "password"), kube.SecretField(o, "sshPrivateKey")}; got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A sync uses the Application's own retry policy.
func TestSyncRetry(t *testing.T) {
	a, hub, _ := newFake(t, object("prod-podinfo", newCommit, "OutOfSync", "Missing", "  operationState: {phase: Failed}\n"))
	hub.patch(t, applications, "prod-podinfo", map[string]any{"spec": map[string]any{"syncPolicy": map[string]any{"retry": map[string]any{"limit": 7}}}})
	v, err := a.readView(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := newNudger(a, engine.Want{})
	for _, want := range []bool{true, false} {
		if sent, err := n.sync(t.Context(), v.apps["prod-podinfo"]); err != nil || sent != want {
			t.Errorf("second sync = %t, %v, want only one", sent, err)
		}
	}
	if got := toYAML(t, hub.Get(t, applications, Namespace, "prod-podinfo").Object["operation"]); !strings.Contains(got, "retry:\n  limit: 7") {
		t.Errorf("operation\n%s", got)
	}
}
