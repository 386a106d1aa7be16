package cluster

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"homelab/lab"
	"homelab/lab/docker"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestPhase(t *testing.T) {
	for message, want := range map[string]string{
		" • Preparing nodes 📦 📦   ...\n":                    "preparing nodes",
		" • Starting control-plane 🕹️  ...\n":               "starting control-plane",
		" • Ensuring node image (kindest/node:v1) 🖼  ...\n": "ensuring node image (kindest/node:v1)",
		" ✓ Preparing nodes 📦 \n":                           "",
		"Creating cluster \"x\" ...\n":                      "",
		" •  ...":                                           "",
	} {
		if got, ok := phase(message); got != want || ok != (want != "") {
			t.Errorf("phase(%q) = %q, %t; want %q", message, got, ok, want)
		}
	}
}

func TestGroup(t *testing.T) {
	node := func(cluster, name, role string, running bool) docker.Container {
		return docker.Container{Name: name, Running: running, Labels: map[string]string{kindClusterLabel: cluster, kindRoleLabel: role}}
	}
	got := group("demo", []docker.Container{
		node("demo-prod", "demo-prod-worker", "worker", false),
		node("demo-prod", "demo-prod-control-plane", "control-plane", true),
		node("demo-dev", "demo-dev-control-plane", "control-plane", true),
		node("demolition", "demolition-control-plane", "control-plane", true),
	})
	want := []lab.ClusterState{
		{Name: "dev", Exists: true, Running: true, Nodes: []string{"demo-dev-control-plane"}},
		{Name: "prod", Exists: true, Running: false, Fault: "1 of 2 nodes stopped", Nodes: []string{"demo-prod-control-plane", "demo-prod-worker"}},
	}
	for i, s := range got {
		if !reflect.DeepEqual(s.ClusterState, want[i]) {
			t.Errorf("got %+v\nwant %+v", s.ClusterState, want[i])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d clusters, want %d", len(got), len(want))
	}
}

func TestRoutes(t *testing.T) {
	node := func(name, cidr string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: cidr}}
	}
	nodes := []*corev1.Node{node("c", "10.244.2.0/24"), node("a", "10.244.0.0/24"), node("b", "10.244.1.0/24"), node("six", "fd00::/64"), node("new", "")}
	if got, want := routes("a", nodes), "10.244.1.0/24 b\n10.244.2.0/24 c\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func node(name string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Message: "Network plugin is missing"}}},
	}
}

func deployment(name string, available int32) *appsv1.Deployment {
	one := int32(1)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: system}, Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: selector(name)},
		Status: appsv1.DeploymentStatus{AvailableReplicas: available, UpdatedReplicas: available, ReadyReplicas: available},
	}
}

func daemonSet(name string, ready int32) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: system},
		Spec:       appsv1.DaemonSetSpec{Selector: selector(name)},
		Status:     appsv1.DaemonSetStatus{DesiredNumberScheduled: 1, NumberReady: ready},
	}
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// pod returns a pod on node a whose container was started at a given time.
func pod(namespace, app string, started time.Time, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: app + "-x", Namespace: namespace, Labels: map[string]string{"app": app}}, Spec: corev1.PodSpec{NodeName: "a"},
		Status: corev1.PodStatus{
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}},
			ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started)}}}},
		},
	}
}

func TestMissing(t *testing.T) {
	s := snapshot{
		nodes: []*corev1.Node{node("a", corev1.ConditionTrue), node("b", corev1.ConditionFalse)}, deployments: []*appsv1.Deployment{deployment("coredns", 0)},
		daemonSets: []*appsv1.DaemonSet{daemonSet("kube-proxy", 0)},
	}
	got := strings.Join(s.missing(map[string]time.Time{"a": {}, "b": {}, "c": {}}), "; ")
	want := "2 of 3 nodes joined; node b not ready: network plugin is missing; deployment coredns 0/1; daemonset kube-proxy 0/1"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	elsewhere := deployment("coredns", 0) // someone else's
	elsewhere.Namespace = "default"
	whole := snapshot{
		nodes: []*corev1.Node{node("a", corev1.ConditionTrue)}, daemonSets: []*appsv1.DaemonSet{daemonSet("kube-proxy", 1)},
		deployments: []*appsv1.Deployment{deployment("coredns", 1), deployment("metrics-server", 0), elsewhere},
		pods: []*corev1.Pod{
			pod(system, "kube-proxy", time.Time{}, corev1.ConditionTrue), pod(system, "coredns", time.Time{}, corev1.ConditionTrue),
		},
	}
	if got := whole.missing(map[string]time.Time{"a": {}}); len(got) != 0 {
		t.Errorf("missing %q in a complete cluster", got)
	}
}

// All requested DNS replicas are waited for, foreign workloads are not.
func TestMissingReplicas(t *testing.T) {
	three, defaulted := deployment("coredns", 2), deployment("coredns", 0)
	*three.Spec.Replicas, defaulted.Spec.Replicas = 3, nil
	theirs := daemonSet("fluentd", 0)
	for want, d := range map[string]*appsv1.Deployment{"deployment coredns 2/3": three, "deployment coredns 0/1": defaulted} {
		d.Status.ReadyReplicas = 0
		s := snapshot{nodes: []*corev1.Node{node("a", corev1.ConditionTrue)}, deployments: []*appsv1.Deployment{d}, daemonSets: []*appsv1.DaemonSet{theirs}}
		if got := s.missing(map[string]time.Time{"a": {}}); !slices.Equal(got, []string{want}) {
			t.Errorf("missing %q, want %q", got, want)
		}
	}
}

// After a restart the status of a node and its pods is stale until the kubelet has reported.
func TestMissingStaleStatus(t *testing.T) {
	restart := time.Date(2026, 1, 1, 12, 0, 0, 500, time.UTC)
	at := func(started time.Time) []*corev1.Pod {
		return []*corev1.Pod{pod("shop", "cart", started, corev1.ConditionTrue)}
	}
	a := node("a", corev1.ConditionTrue)
	heartbeat := &a.Status.Conditions[0].LastHeartbeatTime
	s := snapshot{nodes: []*corev1.Node{a}}
	heartbeat.Time = restart.Add(-time.Minute)
	if got := s.missing(map[string]time.Time{"a": restart}); len(got) != 1 || !strings.Contains(got[0], "no heartbeat") {
		t.Errorf("missing %q: want the node, ready before the restart", got)
	}
	heartbeat.Time = restart.Truncate(time.Second)
	s.pods = at(restart.Add(-time.Minute))
	if got := s.missing(map[string]time.Time{"a": restart}); len(got) != 1 || !strings.Contains(got[0], "not started again") {
		t.Errorf("missing %q: want the pod from before the restart", got)
	}
	s.pods = append(s.pods, s.pods[0])
	if got := s.missing(map[string]time.Time{"a": restart}); len(got) != 1 || got[0] != "pod cart-x and 1 more not started again" {
		t.Errorf("missing %q of two pods", got)
	}
	s.pods = at(restart.Truncate(time.Second))
	if got := s.missing(map[string]time.Time{"a": restart}); len(got) != 0 {
		t.Errorf("missing %q of a pod that started within the second of its node", got)
	}
}

// A Deployment's count of ready pods is stale until the controller manager has its lease back.
func TestMissingStaleCounts(t *testing.T) {
	for _, tc := range []struct {
		name  string
		ready corev1.ConditionStatus
		want  []string
	}{
		{"the pod is not ready", corev1.ConditionFalse, []string{"deployment cart to count its pods", "daemonset cart to count its pods", "statefulset cart to count its pods"}},
		{"the pod is ready", corev1.ConditionTrue, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := snapshot{
				nodes:       []*corev1.Node{node("a", corev1.ConditionTrue)},
				pods:        []*corev1.Pod{pod("shop", "cart", time.Time{}, tc.ready), pod("other", "cart", time.Time{}, corev1.ConditionTrue)},
				deployments: []*appsv1.Deployment{deployment("cart", 1)}, daemonSets: []*appsv1.DaemonSet{daemonSet("cart", 1)},
				sets: []*appsv1.StatefulSet{{
					ObjectMeta: metav1.ObjectMeta{Name: "cart"}, Spec: appsv1.StatefulSetSpec{Selector: selector("cart")}, Status: appsv1.StatefulSetStatus{ReadyReplicas: 1},
				}},
			}
			for _, o := range []metav1.Object{s.deployments[0], s.daemonSets[0], s.sets[0]} {
				o.SetNamespace("shop")
			}
			if got := s.missing(map[string]time.Time{"a": {}}); !slices.Equal(got, tc.want) {
				t.Errorf("missing %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWaitReady(t *testing.T) {
	client := fake.NewClientset(node("a", corev1.ConditionFalse), deployment("coredns", 1), pod(system, "coredns", time.Time{}, corev1.ConditionTrue))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	progress := make(chan string, 10)
	go func() {
		<-progress // the first check was negative
		if _, err := client.CoreV1().Nodes().Update(ctx, node("a", corev1.ConditionTrue), metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
	}()
	if err := waitReady(ctx, client, map[string]time.Time{"a": {}}, func(s string) { progress <- s }); err != nil {
		t.Fatal(err)
	}
}

func TestWaitReadyTimeout(t *testing.T) {
	client := fake.NewClientset(node("a", corev1.ConditionTrue), deployment("coredns", 0))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := waitReady(ctx, client, map[string]time.Time{"a": {}}, orDiscard(nil))
	var e *lab.Error
	if !errors.As(err, &e) || e.Exit != lab.ExitTimeout || !strings.Contains(strings.Join(e.Details, ""), "deployment coredns 0/1") {
		t.Errorf("error %#v, want a timeout that names coredns", err)
	}
}

func TestWaitReadyInterrupted(t *testing.T) {
	client := fake.NewClientset()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := waitReady(ctx, client, map[string]time.Time{"a": {}}, orDiscard(nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestLastLines(t *testing.T) {
	got := lastLines("a\n\n b \n"+strings.Repeat("x", 100)+"\ngithub.com/spf13/cobra.(*Command).Execute\n\tgithub.com/spf13/cobra@v1.10.2/command.go:1071\nmain.main\n", 2)
	if len(got) != 2 || got[0] != "b" || len([]rune(got[1])) != 80 {
		t.Errorf("got %q", got)
	}
}

// TestKindCreateCancelled checks that a running Create is waited for, and that its nodes are removed.
func TestKindCreateCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		deletions := 0
		blocked := make(chan struct{})
		remove := func(ctx context.Context) error {
			if deletions++; deletions == 3 {
				close(blocked)
			}
			return ctx.Err()
		}
		err := kindCreate(ctx, remove, func() error { <-blocked; return nil })
		if !errors.Is(err, context.Canceled) || deletions < 3 {
			t.Errorf("error %v after %d deletions", err, deletions)
		}
	})
}
