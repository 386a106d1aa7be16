package flux

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
	"homelab/lab/flux"
)

func TestMark(t *testing.T) {
	f, hub, _ := withProd(t)
	value, none := "x", (*string)(nil)
	config := kube.SecretField(hub.Get(t, kube.Secrets, "cluster-prod", flux.ClusterKubeconfig), "value")
	err := f.Mark(t.Context(), "prod", engine.Marks{
		Labels: map[string]*string{"tier": &value}, Annotations: map[string]*string{"aws_region": &value, "odd/key": none, "never": none},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Registration(t.Context(), "prod")
	if err != nil || !maps.Equal(r.Labels, map[string]string{"environment": "prod", "tier": "x"}) || !maps.Equal(r.Annotations, map[string]string{"aws_region": "x"}) || r.Server == "" || r.Since.IsZero() {
		t.Errorf("%+v, %v", r, err)
	}
	if got := vars(t, hub); !maps.Equal(got, map[string]string{"environment": "prod", "tier": "x", "aws_region": "x"}) {
		t.Errorf("vars %v", got)
	}
	if got := kube.SecretField(hub.Get(t, kube.Secrets, "cluster-prod", flux.ClusterKubeconfig), "value"); got != config || got == "" {
		t.Error("the kubeconfig changed")
	}
	lines, err := f.Register(t.Context(), prod(nil), &rest.Config{})
	if want := []string{"label tier: removed", "annotation aws_region: x -> eu-west-1", "annotation odd/key: a b: c"}; err != nil || !slices.Equal(lines, want) {
		t.Errorf("%q, %v", lines, err)
	}
	hub.Patch(t, kube.Secrets, "cluster-prod", flux.ClusterKubeconfig, map[string]any{"metadata": map[string]any{"labels": map[string]any{"hers": "y"}}})
	if err := f.Mark(t.Context(), "prod", engine.Marks{Labels: map[string]*string{"hers": &value}}); err == nil || err.Error() != "cluster prod: labels hers was set by someone else" {
		t.Errorf("%v", err)
	}
	if err := f.Mark(t.Context(), "unknown", engine.Marks{}); err == nil || !strings.Contains(err.Error(), "lab up registers it") {
		t.Errorf("%v", err)
	}
	if _, err := f.Registration(t.Context(), "unknown"); err == nil {
		t.Error("registration of unknown cluster")
	}
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, hub, _ := newFake(t, standing())
		type event struct {
			app lab.Application
			o   engine.Observed
		}
		var events []event
		isReady := 0
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- f.Watch(ctx, func(a lab.Application, o engine.Observed) { events = append(events, event{a, o}) }, func() { isReady++ })
		}()
		next := func(n int) []event {
			t.Helper()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if len(events) != n {
				t.Fatalf("%d events, want %d: %+v", len(events), n, events)
			}
			got := events
			events = nil
			return got
		}
		first := next(1)[0]
		if first.app.Name != "prod-podinfo" || !first.app.Converged() || !first.o.SelfHeal || first.o.Gone || first.o.Definition == "" || isReady != 1 {
			t.Errorf("%+v, ready %d", first, isReady)
		}
		hub.Patch(t, helmReleases, "cluster-prod", "podinfo", conditions("Ready Unknown Progressing: upgrading"))
		if e := next(1)[0]; e.app.Health != "Progressing" || e.o.Definition != first.o.Definition {
			t.Errorf("%+v", e)
		}
		next(0)
		hub.Patch(t, helmReleases, "cluster-prod", "podinfo", map[string]any{"spec": map[string]any{"driftDetection": map[string]any{"mode": "warn"}}})
		if e := next(1)[0]; e.o.SelfHeal || e.o.Definition != first.o.Definition {
			t.Errorf("%+v", e)
		}
		hub.Patch(t, kustomizations, "cluster-prod", "podinfo", map[string]any{"spec": map[string]any{"suspend": true}})
		if e := next(1)[0]; e.o.SelfHeal || e.o.Definition == first.o.Definition {
			t.Errorf("%+v", e)
		}
		hub.Refuse("list kustomizations", errors.New("refused"))
		next(0)
		hub.Refuse("list kustomizations", nil)
		for _, r := range []string{"kustomizations", "helmreleases"} {
			resource := kustomizations
			if r == "helmreleases" {
				resource = helmReleases
			}
			if err := hub.Resource(resource).Namespace("cluster-prod").Delete(t.Context(), "podinfo", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if e := next(1)[0]; !e.o.Gone || e.app.Name != "prod-podinfo" {
			t.Errorf("%+v", e)
		}
		cancel()
		if err := <-done; err != nil || isReady != 1 {
			t.Errorf("%v, ready %d", err, isReady)
		}
	})
}

// ready is called only once the API server answers.
func TestWatchLateAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, hub, _ := newFake(t, standing())
		hub.Refuse("list kustomizations", errors.New("refused"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen, isReady := 0, 0
		go f.Watch(ctx, func(lab.Application, engine.Observed) { seen++ }, func() { isReady = seen }) //nolint:errcheck // ends with the test
		time.Sleep(5 * time.Second)
		hub.Refuse("list kustomizations", nil)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if seen != 1 || isReady != 1 {
			t.Errorf("observed %d, ready at %d", seen, isReady)
		}
	})
}

func TestInstallAndObserve(t *testing.T) {
	f, hub, _ := newFake(t)
	if s, err := f.Observe(t.Context()); err != nil || s.Installed() || s.Ready {
		t.Errorf("%+v, %v", s, err)
	}
	r := f.release.(*fakeRelease)
	r.state.Workloads = nil
	var progress []string
	changed, err := f.Install(t.Context(), lab.Chart{Name: "flux2", Version: "2.9.5"}, map[string]any{"a": 1}, func(s string) { progress = append(progress, s) })
	if err != nil || !changed || !slices.Equal(progress, []string{"flux: installing"}) {
		t.Errorf("%t, %v, %q", changed, err, progress)
	}
	if r.last.Namespace != flux.Namespace || r.last.Name != "flux" || r.last.Labels[lab.LabelName] != "homelab" {
		t.Errorf("%+v", r.last)
	}
	if ns := hub.Get(t, kube.Namespaces, "", flux.Namespace); ns.GetLabels()[lab.LabelPart] != "engine" {
		t.Errorf("%v", ns.GetLabels())
	}
	r.state = helm.State{Status: "deployed", Revision: 1, App: "2.9.5", Workloads: []string{"Deployment/source-controller", "Deployment/helm-controller"}}
	if s, err := f.Observe(t.Context()); err != nil || s.Ready || s.Waiting != "source is missing, and 1 more" || !s.Installed() || s.Version != "2.9.5" {
		t.Errorf("%+v, %v", s, err)
	}
	old := metav1.NewTime(time.Now().Add(-time.Hour))
	for _, o := range []runtime.Object{
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "source-controller-x", Namespace: flux.Namespace, CreationTimestamp: old}, Spec: corev1.PodSpec{ServiceAccountName: "source-controller"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "source-controller", Namespace: flux.Namespace, CreationTimestamp: metav1.NewTime(old.Add(time.Minute))}},
	} {
		if err := hub.Typed.Tracker().Add(o); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := f.Observe(t.Context()); err != nil || s.Ready || s.Waiting != "source-x has the token of a deleted ServiceAccount" {
		t.Errorf("%+v, %v", s, err)
	}
	r.state = helm.State{Status: "deployed", Revision: 1, Missing: []string{"secret lab-webhook"}}
	if s, err := f.Observe(t.Context()); err != nil || s.Ready || s.Waiting != "secret lab-webhook is gone" {
		t.Errorf("%+v, %v", s, err)
	}
	r.fail = errors.New("broken")
	if _, err := f.Install(t.Context(), lab.Chart{}, nil, func(string) {}); !errors.Is(err, r.fail) {
		t.Errorf("%v", err)
	}
	if _, err := f.Observe(t.Context()); !errors.Is(err, r.fail) {
		t.Errorf("%v", err)
	}
}

func TestInstallNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, hub, _ := newFake(t)
		f.release.(*fakeRelease).state.Workloads = []string{"Deployment/source-controller"}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "source-controller-x", Namespace: flux.Namespace},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: "manager", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: strings.Repeat("long ", 40)}},
			}}},
		}
		if _, err := hub.Typed.CoreV1().Pods(flux.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := f.Install(t.Context(), lab.Chart{Name: "flux2"}, nil, func(string) {})
		var e *lab.Error
		if !errors.As(err, &e) || e.Code != "engine_not_ready" || e.Message != "flux 2.9.5 is not ready after 5m 0s: source is missing" {
			t.Fatalf("%v", err)
		}
		if len(e.Details) < 2 || e.Details[0] != "source is missing" {
			t.Errorf("%q", e.Details)
		}
		for _, d := range e.Details {
			if len([]rune(d)) > 78 {
				t.Errorf("%q", d)
			}
		}
	})
}
