package flux

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/kube/kubetest"
	"homelab/lab/flux"
)

// stopped returns a lab whose root does not read Git.
func stopped() string {
	return strings.Replace(standing(), "spec: {interval: 10m, prune: true, path: x,", "spec: {suspend: true, interval: 10m, prune: true, path: x,", 1) + "\n" + registered("prod", "homelab", longAgo)
}

const spokeObjects = labSystem + `apiVersion: v1
kind: Namespace
metadata: {name: used, creationTimestamp: "2026-01-03T00:00:00Z", annotations: {by: engine}, managedFields: [{manager: helm-controller}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: before, creationTimestamp: "2026-01-01T00:00:00Z", annotations: {by: engine}, managedFields: [{manager: helm-controller}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: foreign, namespace: used}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: lab-flux-manager, labels: {lab.homelab/name: homelab}}
`

func fillSpoke(t *testing.T, spoke *kubetest.Cluster) {
	t.Helper()
	spoke.Create(t, "", spokeObjects)
	fillResources(spoke)
}

// fillResources adds a spoke's discovery of namespaced kinds.
func fillResources(spoke *kubetest.Cluster) {
	spoke.Typed.Resources = []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{
		{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: metav1.Verbs{"list", "delete"}},
	}}}
}

func TestUnregister(t *testing.T) {
	for name, tc := range map[string]struct {
		d     engine.Departure
		lines []string
		spoke []string // namespaces left there
	}{
		"dies with the lab": {engine.Departure{Cluster: "prod", Spoke: &rest.Config{}}, nil, []string{"before", "lab-system", "podinfo", "used"}},
		"lives on":          {engine.Departure{Cluster: "prod", Spoke: &rest.Config{}, LivesOn: true}, []string{"cluster prod: namespace used stays, with configmap foreign"}, []string{"before", "used"}},
		"is gone":           {engine.Departure{Cluster: "prod"}, nil, []string{"before", "lab-system", "podinfo", "used"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, hub, spoke := newFake(t, stopped()+strings.ReplaceAll(app("prod", "used", newCommit)+releaseOf("prod", "used"), "targetNamespace: used", "targetNamespace: used")+app("hub", "stays", newCommit))
				fillSpoke(t, spoke)
				lines, err := f.Unregister(t.Context(), tc.d, func(string) {})
				want := append(slices.Clone(tc.lines), "cluster prod is no longer registered")
				if err != nil || !slices.Equal(lines, want) {
					t.Errorf("%q, %v", lines, err)
				}
				if got := hub.Names(t, kube.Namespaces, ""); len(got) != 0 {
					t.Errorf("namespaces %q", got)
				}
				if got := slices.Concat(hub.Names(t, kustomizations, "cluster-prod"), hub.Names(t, helmReleases, "cluster-prod"), hub.Names(t, kube.Secrets, "cluster-prod")); len(got) != 0 {
					t.Errorf("left %q", got)
				}
				if got := hub.Names(t, kustomizations, "cluster-hub"); len(got) != 1 {
					t.Errorf("of another cluster: %q", got)
				}
				if got := spoke.Names(t, kube.Namespaces, ""); !slices.Equal(got, tc.spoke) {
					t.Errorf("spoke: %q", got)
				}
				if again, err := f.Unregister(t.Context(), tc.d, func(string) {}); err != nil || len(again) != 0 {
					t.Errorf("second call: %q, %v", again, err)
				}
			})
		})
	}
}

// Flux reads Git first: otherwise it would recreate the deleted objects.
func TestUnregisterReadsGit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, hub, _ := newFake(t, standing()+"\n"+registered("prod", "homelab", longAgo))
		var progress []string
		done := make(chan error, 1)
		hub.ClearActions()
		go func() {
			_, err := f.Unregister(t.Context(), engine.Departure{Cluster: "prod", Spoke: &rest.Config{}}, func(s string) { progress = append(progress, s) })
			done <- err
		}()
		time.Sleep(1200 * time.Millisecond)
		if w := hub.Writes(); !slices.Equal(w, []string{"patch namespaces cluster-prod", "patch gitrepositories flux-system"}) {
			t.Fatalf("%q", w)
		}
		answer(t, hub, gitRepositories, flux.Namespace, "flux-system")
		time.Sleep(1200 * time.Millisecond)
		if w := hub.Writes(); !slices.Equal(w, []string{"patch kustomizations flux-system"}) {
			t.Fatalf("%q", w)
		}
		answer(t, hub, kustomizations, flux.Namespace, "flux-system")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		want := []string{"patch kustomizations podinfo", "delete kustomizations podinfo", "delete helmreleases podinfo", "delete namespaces cluster-prod", "delete secrets cluster-kubeconfig"}
		w := slices.DeleteFunc(hub.Writes(), func(s string) bool { return s == "patch helmreleases podinfo" })
		if !slices.Equal(w, want) {
			t.Errorf("%q", w)
		}
		if len(progress) == 0 || progress[0] != "making flux read git" {
			t.Errorf("%q", progress)
		}
	})
}

// A root that does not answer is waited for only briefly.
func TestUnregisterDeafRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, _ := newFake(t, standing()+"\n"+registered("prod", "homelab", longAgo))
		began := time.Now()
		if _, err := f.Unregister(t.Context(), engine.Departure{Cluster: "prod", Spoke: &rest.Config{}}, func(string) {}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < readWithin || took > readWithin+10*time.Second {
			t.Errorf("after %s", took)
		}
	})
}

func TestUnregisterForeign(t *testing.T) {
	f, hub, _ := newFake(t, stopped()+registered("hers", "other", longAgo))
	var e *lab.Error
	if _, err := f.Unregister(t.Context(), engine.Departure{Cluster: "hers"}, func(string) {}); !errors.As(err, &e) || e.Code != "not_ours" {
		t.Errorf("%v", err)
	}
	if lines, err := f.Unregister(t.Context(), engine.Departure{Cluster: "unknown"}, func(string) {}); err != nil || lines != nil {
		t.Errorf("%q, %v", lines, err)
	}
	if got := hub.Names(t, kube.Namespaces, ""); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

// kept makes deletions only mark an object, as with a stuck finalizer.
func kept(t *testing.T, hub *kubetest.Cluster) {
	t.Helper()
	for _, r := range []string{"kustomizations", "helmreleases"} {
		hub.Refuse("delete "+r, apierrors.NewNotFound(kustomizations.GroupResource(), "x"))
	}
	for _, name := range []string{"cluster-prod"} {
		mark := map[string]any{"metadata": map[string]any{"deletionTimestamp": longAgo, "finalizers": []any{"finalizers.fluxcd.io"}}}
		hub.Patch(t, kustomizations, name, "podinfo", mark)
		hub.Patch(t, helmReleases, name, "podinfo", mark)
	}
}

func TestUnregisterStuck(t *testing.T) {
	for name, d := range map[string]engine.Departure{"unreachable": {Cluster: "prod"}, "not in time": {Cluster: "prod", Spoke: &rest.Config{}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, hub, _ := newFake(t, stopped())
				kept(t, hub)
				began := time.Now()
				var progress []string
				lines, err := f.Unregister(t.Context(), d, func(s string) { progress = append(progress, s) })
				if want := []string{"application prod-podinfo is abandoned, its objects stay", "cluster prod is no longer registered"}; err != nil || !slices.Equal(lines, want) {
					t.Errorf("%q, %v", lines, err)
				}
				took := time.Since(began)
				if d.Spoke == nil && took > 2*goneWithin || d.Spoke != nil && (took < removeWithin || !slices.Equal(progress, []string{"removing 1 applications: prod-podinfo"})) {
					t.Errorf("after %s, progress %q", took, progress)
				}
				for _, o := range []interface{ GetFinalizers() []string }{hub.Get(t, kustomizations, "cluster-prod", "podinfo"), hub.Get(t, helmReleases, "cluster-prod", "podinfo")} {
					if len(o.GetFinalizers()) != 0 {
						t.Error("finalizers are left")
					}
				}
			})
		})
	}
}

func TestWithdraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, hub, spoke := newFake(t, standing()+"\n"+registered("prod", "homelab", longAgo)+layer("prod", "flux-system", newCommit)+app("hub", "stays", newCommit)+app("prod", "used", newCommit)+releaseOf("prod", "used")+
			strings.NewReplacer("labels: {kustomize.toolkit.fluxcd.io/name: hers, kustomize.toolkit.fluxcd.io/namespace: cluster-prod}", "labels: {a: b}").Replace(releaseOf("prod", "hers")))
		hub.Patch(t, helmReleases, "cluster-prod", "podinfo", map[string]any{"spec": map[string]any{"suspend": true}})
		fillSpoke(t, spoke)
		hub.ClearActions()
		spokes := map[string]*rest.Config{"prod": {}}
		var progress []string
		stays, err := f.Withdraw(t.Context(), spokes, func(s string) { progress = append(progress, s) })
		if want := []string{"cluster prod: namespace used stays, with configmap foreign"}; err != nil || !slices.Equal(stays, want) {
			t.Errorf("%q, %v", stays, err)
		}
		if got := hub.Names(t, kustomizations, ""); !slices.Equal(got, []string{"flux-system", "stays"}) {
			t.Errorf("left %q", got)
		}
		if got := hub.Names(t, helmReleases, ""); len(got) != 0 {
			t.Errorf("left %q", got)
		}
		if got := spoke.Names(t, kube.Namespaces, ""); !slices.Equal(got, []string{"before", "used"}) {
			t.Errorf("spoke %q", got)
		}
		if got := spoke.Names(t, kube.ClusterRoleBindings, ""); len(got) != 0 {
			t.Errorf("spoke %q", got)
		}
		if suspended := at(hub.Get(t, kustomizations, flux.Namespace, "flux-system").Object, "spec", "suspend"); suspended != true {
			t.Error("the root is not suspended")
		}
		if got := hub.Names(t, kube.Secrets, "cluster-prod"); len(got) != 1 {
			t.Error("registration was deleted")
		}
		w := hub.Writes()
		order := []string{"patch kustomizations flux-system", "patch kustomizations prod", "delete kustomizations prod", "patch kustomizations podinfo", "delete kustomizations podinfo"}
		last := -1
		for _, request := range order {
			i := slices.Index(w, request)
			if i < 0 {
				t.Errorf("no %q in %q", request, w)
			}
			if i < last && request != "patch kustomizations prod" {
				t.Errorf("%q is too early: %q", request, w)
			}
			last = i
		}
		if len(progress) == 0 || progress[0] != "suspending the roots" {
			t.Errorf("%q", progress)
		}
		if stays, err := f.Withdraw(t.Context(), spokes, func(string) {}); err != nil || len(stays) != 0 {
			t.Errorf("second Withdraw: %q, %v", stays, err)
		}
	})
}

// On timeout the error has Flux's own message, and its access stays for the next run.
func TestWithdrawTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, hub, spoke := newFake(t, stopped())
		fillSpoke(t, spoke)
		kept(t, hub)
		began := time.Now()
		_, err := f.Withdraw(t.Context(), map[string]*rest.Config{"prod": {}}, func(string) {})
		var e *lab.Error
		if !errors.As(err, &e) || e.Exit != lab.ExitTimeout || e.Message != "application prod-podinfo is not gone within 3m 0s: is being removed" || e.Cure == "" {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took < withdrawWithin || took > withdrawWithin+time.Minute {
			t.Errorf("after %s", took)
		}
		if got := spoke.Names(t, kube.ClusterRoleBindings, ""); len(got) != 1 {
			t.Errorf("spoke %q", got)
		}
	})
}

// A running reconciliation of a suspended root still applies.
func TestWithdrawRunningReconciliation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, hub, _ := newFake(t, stopped())
		hub.Patch(t, kustomizations, flux.Namespace, "flux-system", conditions("Reconciling True Progressing: x"))
		time.AfterFunc(10*time.Second, func() {
			hub.Patch(t, kustomizations, flux.Namespace, "flux-system", conditions("Ready True ok: ok"))
		})
		began := time.Now()
		if _, err := f.Withdraw(t.Context(), nil, func(string) {}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 10*time.Second || took > 12*time.Second {
			t.Errorf("after %s", took)
		}
	})
}

// Objects in a terminating namespace of Flux have no controller to finalize them.
func TestDropTerminating(t *testing.T) {
	f, hub, _ := newFake(t, standing()+strings.NewReplacer("cluster-dev", "cluster-prod").Replace(ownNamespaces))
	mark := map[string]any{"metadata": map[string]any{"deletionTimestamp": longAgo, "finalizers": []any{"x"}}}
	hub.Patch(t, gitRepositories, flux.Namespace, "flux-system", mark)
	hub.Patch(t, helmReleases, "cluster-prod", "podinfo", mark)
	hub.Patch(t, kustomizations, "cluster-prod", "podinfo", map[string]any{"metadata": map[string]any{"finalizers": []any{"x"}}})
	if err := f.dropIn(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		got  []string
		want int
	}{
		{hub.Get(t, gitRepositories, flux.Namespace, "flux-system").GetFinalizers(), 0},
		{hub.Get(t, helmReleases, "cluster-prod", "podinfo").GetFinalizers(), 0},
		{hub.Get(t, kustomizations, "cluster-prod", "podinfo").GetFinalizers(), 1},
	} {
		if len(c.got) != c.want {
			t.Errorf("%q", c.got)
		}
	}
}
