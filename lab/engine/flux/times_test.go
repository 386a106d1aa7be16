package flux

import (
	"slices"
	"testing"
	"time"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/meta"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

// The later of the last request and the last comparison or deployment counts.
func TestComparedAt(t *testing.T) {
	early := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	late := early.Add(time.Hour)
	token := func(at time.Time) meta.ReconcileRequestStatus {
		if at.IsZero() {
			return meta.ReconcileRequestStatus{LastHandledReconcileAt: "by hand"}
		}
		return meta.ReconcileRequestStatus{LastHandledReconcileAt: at.Format(time.RFC3339Nano)}
	}
	for name, tc := range map[string]struct{ request, began, want time.Time }{
		"neither":          {},
		"request":          {late, time.Time{}, late},
		"comparison":       {time.Time{}, late, late},
		"later request":    {late, early, late},
		"later comparison": {early, late, late},
	} {
		var k kustomizev1.Kustomization
		var r helmv2.HelmRelease
		k.Status.ReconcileRequestStatus, r.Status.ReconcileRequestStatus = token(tc.request), token(tc.request)
		if !tc.began.IsZero() {
			k.Status.History = meta.History{{LastReconciled: metav1.NewTime(tc.began.Add(time.Minute)), LastReconciledDuration: metav1.Duration{Duration: time.Minute}}}
			r.Status.History = helmv2.Snapshots{{LastDeployed: metav1.NewTime(tc.began)}}
		}
		if got := comparedAt(k); !got.Equal(tc.want) {
			t.Errorf("%s: compared at %s", name, got)
		}
		if got := releasedAt(r); !got.Equal(tc.want) {
			t.Errorf("%s: released at %s", name, got)
		}
	}
}

func TestSinceOf(t *testing.T) {
	now := time.Now()
	early, late, future := now.Add(-2*time.Hour), now.Add(-time.Hour), now.Add(time.Hour)
	for name, tc := range map[string]struct{ registered, started, want time.Time }{
		"neither":       {},
		"registration":  {late, time.Time{}, late},
		"start":         {time.Time{}, late, late},
		"later start":   {early, late, late},
		"earlier start": {late, early, late},
		"future start":  {early, future, early},
		"future only":   {future, future, time.Time{}},
	} {
		list := []engine.Registered{{Cluster: "other", Since: now.Add(-time.Minute)}, {Cluster: "prod", Since: tc.registered}}
		if got := sinceOf(list, engine.Want{Since: map[string]time.Time{"prod": tc.started, "other": late}}, "prod"); !got.Equal(tc.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Only failed generators are requested, and again after a while.
func TestAskGenerators(t *testing.T) {
	f, hub, _ := newFake(t, generating(newCommit))
	for _, tc := range []struct {
		ready string
		want  []string
	}{{"Ready True Succeeded: made", nil}, {"Ready Unknown Progressing: making", nil}, {"Ready False BuildFailed: x", []string{"patch artifactgenerators parts"}}} {
		hub.Patch(t, artifactGenerators, lab.FluxNamespace, "parts", conditions(tc.ready))
		v, err := f.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a := newAsker(f, engine.Want{})
		hub.ClearActions()
		for range 2 {
			if err := a.askGenerators(t.Context(), v); err != nil {
				t.Fatal(err)
			}
		}
		if got := hub.Writes(); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q", tc.ready, got)
		}
	}
}

// Clusters are reached only to explain an application of theirs.
func TestDescribePods(t *testing.T) {
	f, hub, spoke := newFake(t, standing())
	hub.Patch(t, helmReleases, "cluster-prod", "podinfo", spec(map[string]any{"targetNamespace": nil}))
	hub.Patch(t, kustomizations, "cluster-prod", "podinfo", status(map[string]any{"inventory": map[string]any{"entries": []any{
		map[string]any{"id": "shop_web_apps_Deployment", "v": "v1"},
		map[string]any{"id": "shop_db_apps_StatefulSet", "v": "v1"},
		map[string]any{"id": "shop_log_apps_DaemonSet", "v": "v1"},
		map[string]any{"id": "shop_web_example.com_Deployment", "v": "v1"},
		map[string]any{"id": "shop_web_x_apps_Deployment", "v": "v1"},
	}}}))
	two := int32(2)
	labels := map[string]string{fromRelease: "podinfo", fromReleaseNamespace: "cluster-prod"}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "cache", Namespace: "cluster-prod", Labels: labels}, Spec: appsv1.StatefulSetSpec{Replicas: &two}}
	if _, err := spoke.Typed.AppsV1().StatefulSets("cluster-prod").Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	v, err := f.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reach := func(cfg *rest.Config, err error) func(string) (*rest.Config, error) {
		return func(string) (*rest.Config, error) { return cfg, err }
	}
	connect := f.connect
	for name, tc := range map[string]struct {
		reach   func(string) (*rest.Config, error)
		refused error // connection
		want    []string
	}{
		"reachable":     {reach(&rest.Config{}, nil), nil, []string{"statefulset cache: 0 of 2 ready", "deployment web: is missing", "statefulset db: is missing"}},
		"no reach":      {nil, nil, nil},
		"unreachable":   {reach(nil, errRefused), nil, nil},
		"unknown":       {reach(nil, nil), nil, nil},
		"no connection": {reach(&rest.Config{}, nil), errRefused, nil},
	} {
		f.reach = tc.reach
		f.connect = func(cfg *rest.Config) (kube.Clients, error) {
			if tc.refused != nil {
				return kube.Clients{}, tc.refused
			}
			return connect(cfg)
		}
		got := f.describePods(t.Context(), v, v.apps["prod-podinfo"])
		slices.Sort(got)
		slices.Sort(tc.want)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A scene counts the wanted applications and those that are missing.
func TestSceneTotal(t *testing.T) {
	f, _, _ := newFake(t, standing()+app("hub", "metrics", newCommit))
	s, err := f.scene(t.Context(), engine.Want{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		want  engine.Want
		total int
	}{
		"all":         {engine.Want{}, 2},
		"missing":     {engine.Want{Expected: []string{"prod-podinfo", "prod-more"}}, 3},
		"left out":    {engine.Want{LeftOut: []string{"prod-podinfo"}}, 1},
		"one cluster": {engine.Want{Clusters: []string{"hub"}}, 1},
	} {
		if got := s.total(tc.want); got != tc.total {
			t.Errorf("%s: %d", name, got)
		}
	}
	if k, one, there := s.app("hub-metrics"); !there || k.Name != "metrics" || one.flux != f {
		t.Errorf("%s, %t", k.Name, there)
	}
	if _, _, there := s.app("hub-other"); there {
		t.Error("an unknown application")
	}
}

// Objects of releases in a cluster, or on the hub.
func TestReleasesIn(t *testing.T) {
	f, _, _ := newFake(t, releaseOf("prod", "podinfo")+localRelease("cluster-prod", "plain"))
	v, err := f.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for spoke, want := range map[string][]string{"prod": {"podinfo"}, "": {"plain"}, "dev": nil} {
		var got []string
		for _, r := range v.releasesIn(spoke) {
			got = append(got, r.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q", spoke, got)
		}
	}
}

// localRelease returns a release without a kubeconfig.
func localRelease(namespace, name string) string {
	return "\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: " + name + ", namespace: " + namespace + "}\nspec: {interval: 1m}\n---\n"
}
