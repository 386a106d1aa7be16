package argocd

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

func pointer(s string) *string { return &s }

// Once a change by Mark is reverted, the next Register has nothing to do.
func TestMarkReverted(t *testing.T) {
	a, hub, _ := registered(t)
	before := hub.Get(t, secrets, Namespace, "cluster-prod")
	err := a.Mark(t.Context(), "prod", engine.Marks{
		Labels:      map[string]*string{"enable_podinfo": pointer("false"), "new": pointer("x")},
		Annotations: map[string]*string{"aws_region": nil},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.Registration(t.Context(), "prod")
	if err != nil || r.Labels["enable_podinfo"] != "false" || r.Labels["new"] != "x" || hasKey(r.Annotations, "aws_region") {
		t.Fatalf("after Mark: %+v, %v", r, err)
	}
	if o := hub.Get(t, secrets, Namespace, "cluster-prod"); o.GetLabels()[argo.SecretType] != "cluster" || kube.SecretField(o, "config") != kube.SecretField(before, "config") {
		t.Error("the rest of the Secret was changed")
	}
	err = a.Mark(t.Context(), "prod", engine.Marks{
		Labels:      map[string]*string{"enable_podinfo": pointer("true"), "new": nil},
		Annotations: map[string]*string{"aws_region": pointer("eu-west-1")},
	})
	if err != nil {
		t.Fatal(err)
	}
	hub.ClearActions()
	lines, err := a.Register(t.Context(), prod(nil), &rest.Config{})
	if err != nil || len(lines) > 0 {
		t.Errorf("next Register: %q, %v", lines, err)
	}
	if w := hub.Writes(); len(w) > 0 {
		t.Errorf("requests %q", w)
	}
}

func TestMarkForeignKey(t *testing.T) {
	a, hub, _ := registered(t)
	patch := []byte(`{"metadata":{"labels":{"team":"theirs"}}}`)
	if _, err := hub.Resource(secrets).Namespace(Namespace).Patch(t.Context(), "cluster-prod", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl"}); err != nil {
		t.Fatal(err)
	}
	err := a.Mark(t.Context(), "prod", engine.Marks{Labels: map[string]*string{"team": pointer("ours")}})
	if err == nil || !strings.Contains(err.Error(), "set by someone else") {
		t.Errorf("error %v", err)
	}
	if err := a.Mark(t.Context(), "prod", engine.Marks{Labels: map[string]*string{"x": pointer("y")}}); err != nil {
		t.Fatal(err)
	}
	if got := hub.Get(t, secrets, Namespace, "cluster-prod").GetLabels(); got["team"] != "theirs" || got["x"] != "y" {
		t.Errorf("labels %v", got)
	}
	if err := a.Mark(t.Context(), "nowhere", engine.Marks{}); err == nil || err.Error() != "cluster nowhere is not registered: lab up registers it" {
		t.Errorf("unknown cluster: %v", err)
	}
}

func TestWatch(t *testing.T) {
	a, hub, _ := newFake(t)
	const app = `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: prod-podinfo
  namespace: argocd
  labels: {cluster: prod, addon: podinfo}
spec:
  destination: {name: prod, namespace: podinfo}
  syncPolicy: {automated: {selfHeal: true}}
status: {sync: {status: Synced}, health: {status: Healthy}}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: addons, namespace: argocd, labels: {lab.homelab/part: root}}
spec: {destination: {name: hub}}
`
	hub.create(t, app)
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var progress []string
		done := make(chan error, 1)
		go func() {
			done <- a.Watch(ctx, func(app lab.Application, o engine.Observed) {
				word := app.Cluster + "/" + app.Addon + " " + app.Sync
				if o.SelfHeal {
					word += " heals"
				}
				if o.Gone {
					word += " gone"
				}
				progress = append(progress, word)
			}, func() { progress = append(progress, "ready") })
		}()
		synctest.Wait()
		for _, patch := range []string{`{"status":{"sync":{"status":"OutOfSync"}}}`, `{"status":{"sync":{"status":"Synced"}}}`, `{"spec":{"syncPolicy":{"automated":{"enabled":false}}}}`} {
			if _, err := hub.Resource(applications).Namespace(Namespace).Patch(ctx, "prod-podinfo", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := hub.Resource(applications).Namespace(Namespace).Delete(ctx, "prod-podinfo", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		want := []string{"prod/podinfo Synced heals", "ready", "prod/podinfo OutOfSync heals", "prod/podinfo Synced heals", "prod/podinfo Synced", "prod/podinfo Synced gone"}
		progress = slices.Compact(progress) // the fake reports each write twice
		if !slices.Equal(progress, want) {
			t.Errorf("reported %q, want %q", progress, want)
		}
	})
}
