package kube_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"homelab/lab"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/kube/kubetest"
)

var (
	apps        = schema.GroupVersionResource{Group: "gitops.example.org", Version: "v1", Resource: "apps"}
	deployments = kube.ExtraKinds["Deployment"]
)

func clusterOf(t *testing.T, manifests ...string) *kubetest.Cluster {
	t.Helper()
	kinds := kubetest.Core()
	kinds[kube.CRDs], kinds[apps] = "CustomResourceDefinition", "App"
	c := kubetest.New(t, kinds, manifests...)
	all := metav1.Verbs{"list", "patch", "delete"}
	c.Typed.Resources = []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: all}, {Name: "events", Kind: "Event", Verbs: all}, {Name: "bindings", Kind: "Binding", Verbs: metav1.Verbs{"create"}},
		}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "deployments", Kind: "Deployment", Namespaced: true, Verbs: all}}},
	}
	return c
}

const applied = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  uid: web-1
  labels: {app: web, gitops/name: web}
  annotations: {gitops/id: "7", last: all of it, hers: kept}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: hers, namespace: shop, annotations: {last: kept}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: made, namespace: shop, annotations: {last: copied, other: kept}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: web-1}]}
`

var traces = kube.Traces{
	Labels: []string{"gitops/name"}, Annotations: []string{"gitops/id"}, Shared: []string{"last"}, Managers: []string{"gitops-controller"},
	Origin: func(o *unstructured.Unstructured) kube.Origin {
		name, labeled := o.GetLabels()["gitops/name"]
		switch {
		case !labeled:
			return kube.Untold
		case name == "web":
			return kube.Ours
		}
		return kube.Theirs
	},
}

var theWeb = []kube.Object{{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}}

func TestErase(t *testing.T) {
	c := clusterOf(t, applied)
	c.Writes()
	if n, err := traces.Erase(t.Context(), c.Clients(), theWeb, true); err != nil || n != 2 {
		t.Errorf("%d objects, %v", n, err)
	}
	web := c.Get(t, deployments, "shop", "web")
	if !maps.Equal(web.GetLabels(), map[string]string{"app": "web"}) || !maps.Equal(web.GetAnnotations(), map[string]string{"hers": "kept"}) {
		t.Errorf("%v %v", web.GetLabels(), web.GetAnnotations())
	}
	if has := c.Get(t, kube.ConfigMaps, "shop", "hers").GetAnnotations(); has["last"] != "kept" {
		t.Errorf("%v", has)
	}
	if has := c.Get(t, kube.ConfigMaps, "shop", "made").GetAnnotations(); !maps.Equal(has, map[string]string{"other": "kept"}) {
		t.Errorf("owned object: %v", has)
	}
	c.Writes()
	if n, err := traces.Erase(t.Context(), c.Clients(), theWeb, true); err != nil || n != 0 || len(c.Writes()) != 0 {
		t.Errorf("second: %d objects, %v", n, err)
	}
}

// What existed before the lab came, such as kube-system, is the owner's only in an attached cluster.
func TestEraseOlder(t *testing.T) {
	for attached, want := range map[bool]int{false: 1, true: 0} {
		c := clusterOf(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: lab-system, creationTimestamp: \"2026-11-02T00:00:00Z\"}\n")
		c.Create(t, "", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop, uid: w, creationTimestamp: \"2026-11-01T00:00:00Z\", annotations: {gitops/id: \"7\"}}\n")
		if n, err := traces.Erase(t.Context(), c.Clients(), theWeb, attached); err != nil || n != want {
			t.Errorf("attached %t: %d objects, %v", attached, n, err)
		}
	}
}

// A definition that is older than lab's namespace is the owner's only in an attached cluster.
func TestFindOlder(t *testing.T) {
	const older = `
apiVersion: v1
kind: Namespace
metadata: {name: lab-system, creationTimestamp: "2026-11-02T00:00:00Z"}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: apps.gitops.example.org
  creationTimestamp: "2026-11-01T00:00:00Z"
  annotations: {meta.helm.sh/release-name: gitops, meta.helm.sh/release-namespace: gitops}
`
	for attached, want := range map[bool]int{false: 1, true: 0} {
		d := kube.Definitions{Of: func(string) bool { return true }, Release: "gitops", Namespace: "gitops", Attached: attached}
		own, others, err := d.Find(t.Context(), clusterOf(t, older).Clients())
		if err != nil || len(own) != want || len(others) != 1-want {
			t.Errorf("attached %t: %d own, %d others, %v", attached, len(own), len(others), err)
		}
	}
}

func TestEraseErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, request := range []string{"list deployments", "patch deployments"} {
		c := clusterOf(t, applied)
		c.Refuse(request, broken)
		if _, err := traces.Erase(t.Context(), c.Clients(), theWeb, true); !errors.Is(err, broken) {
			t.Errorf("%s: %v", request, err)
		}
	}
}

const onHub = `
apiVersion: v1
kind: Namespace
metadata: {name: gitops, labels: {lab.homelab/name: demo}}
---
apiVersion: v1
kind: Namespace
metadata: {name: hers}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: apps.gitops.example.org, annotations: {meta.helm.sh/release-name: gitops, meta.helm.sh/release-namespace: gitops}}
spec: {group: gitops.example.org, versions: [{name: v0, served: false}, {name: v1, served: true}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rollouts.gitops.example.org}
spec: {group: gitops.example.org, versions: [{name: v1, served: true}]}
---
apiVersion: gitops.example.org/v1
kind: App
metadata: {name: web, namespace: gitops, finalizers: [gitops/cascade]}
`

const inSpoke = `
apiVersion: v1
kind: Namespace
metadata: {name: lab-system, labels: {lab.homelab/name: demo}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: gitops, namespace: lab-system, labels: {lab.homelab/name: demo}}
---
apiVersion: v1
kind: Secret
metadata: {name: gitops-token, namespace: lab-system, labels: {lab.homelab/name: demo}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: lab-gitops, labels: {lab.homelab/name: other}}
`

func retirement(hub *kubetest.Cluster, calls *[]string) kube.Retirement {
	var mu sync.Mutex
	call := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		*calls = append(*calls, name)
	}
	return kube.Retirement{
		Title: "gitops", Lab: "demo", Namespace: "gitops", Workloads: []string{"Deployment/server"}, Namespaces: []string{"gitops", "hers"}, Traces: traces,
		Access: kube.Access{Account: "gitops", Labels: map[string]any{lab.LabelName: "demo"}},
		Uninstall: func(ctx context.Context) error {
			pods, err := hub.Typed.CoreV1().Pods("gitops").List(ctx, metav1.ListOptions{})
			call("uninstall")
			if len(pods.Items) > 0 {
				return errors.New("pods still run")
			}
			return err
		},
		Kinds:   kube.Definitions{Of: func(crd string) bool { return crd == "apps.gitops.example.org" }, Release: "gitops", Namespace: "gitops"},
		Applied: func(string) []kube.Object { return theWeb },
		Leave: func(_ context.Context, spoke string, _ kube.Clients) error {
			call("leave " + spoke)
			return nil
		},
	}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "gitops"}}
}

func TestRetire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, spoke := clusterOf(t, onHub), clusterOf(t, inSpoke, applied)
		pods := hub.Typed.CoreV1().Pods("gitops")
		if _, err := pods.Create(t.Context(), pod("server-1"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		var calls, lines []string
		r := retirement(hub, &calls)
		progress := func(s string) {
			lines = append(lines, s)
			if s == "waiting for the removal of pod server-1" { // as after its grace period
				if err := pods.Delete(t.Context(), "server-1", metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}
		}
		for range 2 { // an interrupted run is repeated
			if err := r.Run(t.Context(), hub.Clients(), map[string]kube.Clients{"prod": spoke.Clients()}, progress); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Contains(lines, "waiting for the removal of pod server-1") {
			t.Errorf("%q", lines)
		}
		if calls[0] != "uninstall" || !slices.Contains(calls, "leave ") || !slices.Contains(calls, "leave prod") {
			t.Errorf("%q", calls)
		}
		if got := hub.Names(t, kube.CRDs, ""); !slices.Equal(got, []string{"rollouts.gitops.example.org"}) {
			t.Errorf("definitions %v", got)
		}
		if got := hub.Names(t, kube.Namespaces, ""); !slices.Equal(got, []string{"hers"}) {
			t.Errorf("namespaces %v", got)
		}
		if left := hub.Names(t, apps, ""); len(left) > 0 {
			t.Errorf("objects of the engine: %v", left)
		}
		web := spoke.Get(t, deployments, "shop", "web")
		if web.GetUID() != "web-1" || web.GetLabels()["gitops/name"] != "" {
			t.Errorf("%v", web)
		}
		if left := append(spoke.Names(t, kube.ServiceAccounts, "lab-system"), spoke.Names(t, kube.Secrets, "lab-system")...); len(left) != 0 {
			t.Errorf("access: %v", left)
		}
		if got := spoke.Names(t, kube.ClusterRoleBindings, ""); len(got) != 1 {
			t.Errorf("binding of another lab was deleted: %v", got)
		}
		if got := spoke.Names(t, kube.Namespaces, ""); !slices.Equal(got, []string{"lab-system"}) {
			t.Errorf("namespaces of the spoke %v", got)
		}
	})
}

// What an engine of the cluster's owner applied, has and uses stays as it is.
func TestRetireBesideOwner(t *testing.T) {
	const hers = `
apiVersion: gitops.example.org/v1
kind: App
metadata: {name: hers, namespace: hers, finalizers: [gitops/cascade]}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, creationTimestamp: "2026-01-01T00:00:00Z"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: hers, namespace: shop, uid: hers-1, labels: {gitops/name: hers}, annotations: {gitops/id: "7", last: x}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: same-name, namespace: shop, uid: hers-2, labels: {gitops/name: web}, annotations: {gitops/id: "7"}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: of-hers, namespace: shop, labels: {gitops/name: hers}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: hers, uid: hers-1}]}
`
	const taken = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: taken, namespace: shop, uid: hers-3, labels: {gitops/name: hers}}\n"
	synctest.Test(t, func(t *testing.T) {
		hub, spoke := clusterOf(t, onHub, hers), clusterOf(t, inSpoke, applied, hers, taken)
		before, there := hub.Versions(t, "hers"), spoke.Versions(t, "hers", "same-name", "taken", "shop")
		var calls, lines []string
		r := retirement(hub, &calls)
		r.Applied = func(string) []kube.Object {
			return append(slices.Clip(theWeb), kube.Object{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "taken"}, kube.Object{Kind: "Namespace", Name: "shop"})
		}
		for range 2 {
			if err := r.Run(t.Context(), hub.Clients(), map[string]kube.Clients{"prod": spoke.Clients()}, func(s string) { lines = append(lines, s) }); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(before, hub.Versions(t, "hers")); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(there, spoke.Versions(t, "hers", "same-name", "taken", "shop")); d != "" {
			t.Error(d)
		}
		if got := hub.Names(t, apps, ""); !slices.Equal(got, []string{"hers"}) {
			t.Errorf("objects %v", got)
		}
		if !slices.Contains(lines, "customresourcedefinition apps.gitops.example.org stays, with hers/hers") {
			t.Errorf("%q", lines)
		}
		if o := spoke.Get(t, deployments, "shop", "web"); o.GetLabels()["gitops/name"] != "" {
			t.Errorf("%v", o)
		}
	})
}

// While a pod of the engine may run, nothing else is touched.
func TestRetireStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, spoke := clusterOf(t, onHub), clusterOf(t, inSpoke, applied)
		if _, err := hub.Typed.CoreV1().Pods("gitops").Create(t.Context(), pod("server-1"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		var calls []string
		r := retirement(hub, &calls)
		began, killed := time.Now(), []time.Duration{}
		hub.Typed.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if grace := a.(clienttesting.DeleteAction).GetDeleteOptions().GracePeriodSeconds; grace == nil || *grace != 1 {
				t.Errorf("grace period %v", grace)
			}
			killed = append(killed, time.Since(began).Round(time.Second))
			return true, nil, nil
		})
		err := r.Run(t.Context(), hub.Clients(), map[string]kube.Clients{"prod": spoke.Clients()}, func(string) {})
		if !slices.Equal(killed, []time.Duration{20 * time.Second}) {
			t.Errorf("killed after %v", killed)
		}
		var e *lab.Error
		if !errors.As(err, &e) || e.Exit != lab.ExitTimeout || !strings.Contains(e.Message, "pod server-1 is not gone within") {
			t.Errorf("%v", err)
		}
		if len(calls)+len(hub.Writes())+len(spoke.Writes()) > 0 {
			t.Errorf("%v", calls)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Run(ctx, hub.Clients(), nil, func(string) {}); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

// A pod whose grace period is longer than lab's is killed.
func TestRetireSlowPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := clusterOf(t, onHub)
		if _, err := hub.Typed.CoreV1().Pods("gitops").Create(t.Context(), pod("server-1"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		var calls []string
		r, began := retirement(hub, &calls), time.Now()
		if err := r.Run(t.Context(), hub.Clients(), nil, func(string) {}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 20*time.Second || took > 30*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestRetireErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct{ at, request string }{
		{"hub", "list customresourcedefinitions"},
		{"hub", "delete customresourcedefinitions"},
		{"hub", "list apps"},
		{"hub", "patch apps"},
		{"hub", "get namespaces"},
		{"hub", "delete namespaces"},
		{"hub", "list configmaps"},
		{"spoke", "list deployments"},
		{"spoke", "get clusterrolebindings"},
		{"spoke", "delete secrets"},
		{"spoke", "delete serviceaccounts"},
	} {
		synctest.Test(t, func(t *testing.T) {
			hub, spoke := clusterOf(t, onHub), clusterOf(t, inSpoke, applied)
			map[string]*kubetest.Cluster{"hub": hub, "spoke": spoke}[tc.at].Refuse(tc.request, broken)
			var calls []string
			if err := retirement(hub, &calls).Run(t.Context(), hub.Clients(), map[string]kube.Clients{"prod": spoke.Clients()}, func(string) {}); !errors.Is(err, broken) {
				t.Errorf("%v: %v", tc, err)
			}
		})
	}
}

func TestEraseConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clusterOf(t, applied)
		c.PrependReactor("patch", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewConflict(deployments.GroupResource(), "web", errors.New("written by another"))
		})
		var e *lab.Error
		if _, err := traces.Erase(t.Context(), c.Clients(), theWeb, true); !errors.As(err, &e) || e.Cure == "" {
			t.Errorf("%v", err)
		}
	})
}
