package argocd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"homelab/lab"
	"homelab/lab/engine/kube"
)

var chart = lab.Chart{Name: "argo-cd", Version: "9.1.0", Digest: "sha256:x"}

func server(ready int32) *appsv1.Deployment {
	one := int32(1)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "argocd-server", Namespace: Namespace},
		Spec:       appsv1.DeploymentSpec{Replicas: &one},
		Status:     appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: ready, AvailableReplicas: ready},
	}
}

// newInstall returns an engine whose release has one workload with the given number of ready pods.
func newInstall(t *testing.T, ready int32) (*ArgoCD, *cluster, *fakeRelease) {
	t.Helper()
	a, hub, _ := newFake(t)
	rel := &fakeRelease{}
	rel.state.Workloads = []string{"Deployment/argocd-server"}
	a.release = rel
	if err := hub.Typed.Tracker().Add(server(ready)); err != nil {
		t.Fatal(err)
	}
	return a, hub, rel
}

func TestInstall(t *testing.T) {
	a, hub, rel := newInstall(t, 1)
	var progress []string
	install := func(want bool) {
		t.Helper()
		changed, err := a.Install(t.Context(), chart, map[string]any{"a": 1}, func(s string) { progress = append(progress, s) })
		if err != nil || changed != want {
			t.Fatalf("changed %v, want %v, %v", changed, want, err)
		}
	}
	install(true)
	password := kube.SecretField(hub.Get(t, secrets, Namespace, redisSecret), "auth")
	if len(password) < 20 {
		t.Errorf("Redis password is %q", password)
	}
	hub.Writes()
	install(false)
	if w := hub.Writes(); len(w) != 0 {
		t.Errorf("requests without a change: %v", w)
	}
	s, err := a.Observe(t.Context())
	if err != nil || !s.Installed() || !s.Ready || s.Revision != 1 || s.Version != "v3.2.11" {
		t.Errorf("%+v, %v", s, err)
	}
	if inputs, err := Inputs(chart, map[string]any{"a": 1}); err != nil || inputs != s.Inputs {
		t.Errorf("Inputs = %q, release has %q, %v", inputs, s.Inputs, err)
	}

	old := metav1.NewTime(time.Now().Add(-time.Hour))
	for _, o := range []runtime.Object{
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "argocd-server-x", Namespace: Namespace, CreationTimestamp: old}, Spec: corev1.PodSpec{ServiceAccountName: "argocd-server"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "argocd-server", Namespace: Namespace, CreationTimestamp: metav1.NewTime(old.Add(time.Minute))}},
	} {
		if err := hub.Typed.Tracker().Add(o); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := a.Observe(t.Context()); err != nil || s.Ready || s.Waiting != "server-x has the token of a deleted ServiceAccount" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := hub.Typed.CoreV1().Pods(Namespace).Delete(t.Context(), "argocd-server-x", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := hub.Typed.AppsV1().Deployments(Namespace).Delete(t.Context(), "argocd-server", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	rel.state.Missing = []string{"deployment argocd-server"}
	s, err = a.Observe(t.Context())
	if err != nil || s.Ready || s.Waiting != "deployment argocd-server is gone" {
		t.Errorf("%+v, %v", s, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	progress = nil
	_, err = a.Install(ctx, chart, map[string]any{"a": 1}, func(s string) {
		if progress = append(progress, s); len(progress) == 2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || rel.calls != 2 {
		t.Errorf("%d calls, %v", rel.calls, err)
	}
	if want := []string{"argo cd: upgrading, deployment argocd-server is gone", "argo cd 3.2.11: server is missing"}; !slices.Equal(progress, want) {
		t.Errorf("progress %q", progress)
	}
}

// Programs that read a recreated object only at startup are restarted.
func TestInstallRestart(t *testing.T) {
	for _, tc := range []struct {
		name     string
		missing  string
		password bool // Redis' password is missing
		project  bool // the default project is missing
		restarts bool
	}{
		{name: "a secret", missing: "secret argocd-secret", restarts: true},
		{name: "a config map", missing: "configmap argocd-cm", restarts: true},
		{name: "a service", missing: "service argocd-server"},
		{name: "the password of Redis", password: true, restarts: true},
		{name: "the default project", project: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, hub, rel := newInstall(t, 1)
			install := func() bool {
				t.Helper()
				changed, err := a.Install(t.Context(), chart, nil, func(string) {})
				if err != nil {
					t.Fatal(err)
				}
				return changed
			}
			restarted := func() bool {
				d, err := hub.Typed.AppsV1().Deployments(Namespace).Get(t.Context(), "argocd-server", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] != ""
			}
			install()
			if restarted() {
				t.Fatal("restarted after the first install")
			}
			if tc.missing != "" {
				rel.state.Missing = []string{tc.missing}
			}
			if tc.password {
				if err := hub.Resource(secrets).Namespace(Namespace).Delete(t.Context(), redisSecret, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if tc.project {
				if err := hub.Resource(appProjects).Namespace(Namespace).Delete(t.Context(), defaultProject, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if s, err := a.Observe(t.Context()); err != nil || s.Ready || !strings.HasSuffix(s.Waiting, " is gone") {
				t.Errorf("%+v, %v", s, err)
			}
			if !install() || restarted() != tc.restarts {
				t.Errorf("restarted %t, want %t", restarted(), tc.restarts)
			}
			if install() {
				t.Error("changed twice")
			}
		})
	}
}

func TestInstallNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, _ := newInstall(t, 0)
		start := time.Now()
		changed, err := a.Install(t.Context(), chart, nil, func(string) {})
		var e *lab.Error
		if !changed || !errors.As(err, &e) || e.Exit != lab.ExitTimeout || e.Code != "engine_not_ready" {
			t.Fatalf("changed %v, %v", changed, err)
		}
		if e.Message != "argo cd 3.2.11 is not ready after 5m 0s: server 0 of 1 ready" || time.Since(start) != readyWithin {
			t.Errorf("%q after %s", e.Message, time.Since(start))
		}
	})
}

func TestInstallHelmError(t *testing.T) {
	a, _, _ := newFake(t)
	a.release = &fakeRelease{fail: errors.New("no space left")}
	if _, err := a.Install(t.Context(), chart, nil, func(string) {}); err == nil || !strings.HasPrefix(err.Error(), "argo cd: ") {
		t.Errorf("%v", err)
	}
}
