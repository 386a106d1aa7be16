package flux

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

// Clusters are reached only to explain an application of theirs.
func TestDescribePods(t *testing.T) {
	f, hub, spoke := newFake(t, standing())
	hub.Patch(t, helmReleases, "cluster-prod", "podinfo", map[string]any{"spec": map[string]any{"targetNamespace": nil}})
	hub.Patch(t, kustomizations, "cluster-prod", "podinfo", map[string]any{"status": map[string]any{"inventory": map[string]any{"entries": []any{
		map[string]any{"id": "shop_web_apps_Deployment", "v": "v1"},
		map[string]any{"id": "shop_db_apps_StatefulSet", "v": "v1"},
		map[string]any{"id": "shop_log_apps_DaemonSet", "v": "v1"},
		map[string]any{"id": "shop_web_example.com_Deployment", "v": "v1"},
		map[string]any{"id": "shop_web_x_apps_Deployment", "v": "v1"},
	}}}})
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
		got := f.describePods(t.Context(), v, v.Apps["prod-podinfo"])
		slices.Sort(got)
		slices.Sort(tc.want)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A snapshots counts the wanted applications and those that are missing.
func TestSceneTotal(t *testing.T) {
	f, _, _ := newFake(t, standing()+app("hub", "metrics", newCommit))
	s, err := f.snapshots(t.Context(), engine.Want{})
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
