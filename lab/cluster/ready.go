package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/informer"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
)

// system is the namespace of the system workloads.
const system = metav1.NamespaceSystem

// systemWorkloads lists the workloads of kubeadm and kind; the engine waits for any others (such as metrics-server).
var systemWorkloads = []string{"coredns", "kube-proxy", "kindnet"}

// settle sets up the routes between running nodes and waits until everything is ready.
func (k *Kind) settle(ctx context.Context, name string, p lab.Progress) error {
	client, err := k.client(name)
	if err != nil {
		return err
	}
	since, err := k.startTimes(ctx, name)
	if err != nil {
		return err
	}
	if len(since) > 1 {
		if err := k.route(ctx, client, len(since), p); err != nil {
			return err
		}
	}
	return waitReady(ctx, client, since, p)
}

// oneDNS scales DNS to one replica on a single node: the second would run on the same node, at the cost of 15 MiB and a pod start.
func (k *Kind) oneDNS(ctx context.Context, name string) error {
	nodes, err := k.nodes(ctx, name)
	if err != nil || len(nodes) != 1 {
		return err
	}
	client, err := k.client(name)
	if err != nil {
		return err
	}
	err = retryAPI(ctx, func() error {
		_, err := client.AppsV1().Deployments(system).Patch(ctx, "coredns", types.MergePatchType, []byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("coredns: %w", err)
	}
	return nil
}

// retryAPI retries for a few seconds: a new API server on a busy machine may not answer at first.
func retryAPI(ctx context.Context, try func() error) error {
	again := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 6}
	return retry.OnError(again, func(error) bool { return ctx.Err() == nil }, try)
}

// startTimes returns the last start time of each Kubernetes node.
func (k *Kind) startTimes(ctx context.Context, name string) (map[string]time.Time, error) {
	nodes, err := k.nodes(ctx, name)
	return starts(nodes), err
}

func starts(nodes []docker.Container) map[string]time.Time {
	since := map[string]time.Time{}
	for _, n := range nodes {
		if n.Labels[kindRoleLabel] != loadBalancer {
			since[n.Name] = started(n)
		}
	}
	return since
}

// waitReady waits until all nodes are ready, kubeadm's workloads run, and no reported status predates the start of its node. kind's own wait is unusable: it
// returns nil on timeout.
func waitReady(ctx context.Context, client kubernetes.Interface, since map[string]time.Time, p lab.Progress) error {
	seen := func(s snapshot) (bool, string) {
		missing := s.missing(since)
		return len(missing) == 0, strings.Join(missing, ", ")
	}
	return watch(ctx, client, seen, p)
}

// snapshot is the state of a cluster as seen by the watches.
type snapshot struct {
	nodes       []*corev1.Node
	deployments []*appsv1.Deployment
	daemonSets  []*appsv1.DaemonSet
	sets        []*appsv1.StatefulSet
	pods        []*corev1.Pod
}

// missing describes the unready objects.
func (s snapshot) missing(since map[string]time.Time) []string {
	var missing []string
	if len(s.nodes) < len(since) {
		missing = append(missing, fmt.Sprintf("%d of %d nodes joined", len(s.nodes), len(since)))
	}
	for _, n := range s.nodes {
		if ok, why := nodeReady(n, since[n.Name]); !ok {
			missing = append(missing, "node "+n.Name+" "+why)
		}
	}
	for _, d := range s.deployments {
		if !isOwn(d) {
			continue
		}
		want := int32(1)
		if d.Spec.Replicas != nil {
			want = *d.Spec.Replicas
		}
		if st := d.Status; st.ObservedGeneration < d.Generation || st.UpdatedReplicas < want || st.AvailableReplicas < want {
			missing = append(missing, fmt.Sprintf("deployment %s %d/%d", d.Name, st.AvailableReplicas, want))
		}
	}
	for _, d := range s.daemonSets {
		if !isOwn(d) {
			continue
		}
		if st := d.Status; st.ObservedGeneration < d.Generation || st.NumberReady < st.DesiredNumberScheduled || st.DesiredNumberScheduled == 0 {
			missing = append(missing, fmt.Sprintf("daemonset %s %d/%d", d.Name, st.NumberReady, st.DesiredNumberScheduled))
		}
	}
	var old []string
	for _, pod := range s.pods {
		if pod.DeletionTimestamp == nil && stale(pod, since[pod.Spec.NodeName]) {
			old = append(old, pod.Name)
		}
	}
	switch len(old) {
	case 0:
	case 1:
		missing = append(missing, "pod "+old[0]+" not started again")
	default:
		missing = append(missing, fmt.Sprintf("pod %s and %d more not started again", old[0], len(old)-1))
	}
	return append(missing, s.overstated()...)
}

// isOwn reports whether a workload was created by kubeadm or kind.
func isOwn(o metav1.Object) bool {
	return o.GetNamespace() == system && slices.Contains(systemWorkloads, o.GetName())
}

// overstated returns the workloads whose status counts more ready pods than there are, since the controller manager has not synced after the restart.
func (s snapshot) overstated() []string {
	ready := map[string][]labels.Set{} // by namespace
	for _, p := range s.pods {
		if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }) {
			ready[p.Namespace] = append(ready[p.Namespace], p.Labels)
		}
	}
	var names []string
	check := func(kind string, o metav1.Object, selector *metav1.LabelSelector, counted int32) {
		selects, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			return
		}
		for _, pod := range ready[o.GetNamespace()] {
			if selects.Matches(pod) {
				counted--
			}
		}
		if counted > 0 {
			names = append(names, fmt.Sprintf("%s %s to count its pods", kind, o.GetName()))
		}
	}
	for _, d := range s.deployments {
		check("deployment", d, d.Spec.Selector, d.Status.ReadyReplicas)
	}
	for _, d := range s.daemonSets {
		check("daemonset", d, d.Spec.Selector, d.Status.NumberReady)
	}
	for _, d := range s.sets {
		check("statefulset", d, d.Spec.Selector, d.Status.ReadyReplicas)
	}
	return names
}

// stale reports whether the status of a running pod predates the start of its node.
func stale(pod *corev1.Pod, since time.Time) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running != nil && c.State.Running.StartedAt.Time.Before(since.Truncate(time.Second)) { // the API has whole seconds
			return true
		}
	}
	return false
}

// nodeReady reports whether a node is ready since its start, and if not, why.
func nodeReady(n *corev1.Node, since time.Time) (bool, string) {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			if c.LastHeartbeatTime.Time.Before(since.Truncate(time.Second)) { // the API has whole seconds
				return false, "not ready: no heartbeat since its start"
			}
			return c.Status == corev1.ConditionTrue, strings.ToLower("not ready: " + c.Message)
		}
	}
	return false, "not ready: no status yet"
}

// watch watches nodes and workloads until seen returns true. If ctx ends first, the error contains the last state.
func watch(ctx context.Context, client kubernetes.Interface, seen func(snapshot) (bool, string), p lab.Progress) error {
	began := time.Now()
	apps, core := client.AppsV1(), client.CoreV1()
	nodes := informer.New(client, core.Nodes(), &corev1.Node{})
	deployments := informer.New(client, apps.Deployments(metav1.NamespaceAll), &appsv1.Deployment{})
	daemonSets := informer.New(client, apps.DaemonSets(metav1.NamespaceAll), &appsv1.DaemonSet{})
	sets := informer.New(client, apps.StatefulSets(metav1.NamespaceAll), &appsv1.StatefulSet{})
	pods := informer.New(client, core.Pods(metav1.NamespaceAll), &corev1.Pod{})
	changed := make(chan struct{}, 1)
	all := []cache.SharedIndexInformer{nodes, deployments, daemonSets, sets, pods}
	synced := make([]cache.DoneChecker, len(all))
	for n, i := range all {
		if err := informer.Follow(i, changed, nil); err != nil {
			return err
		}
		synced[n] = i.HasSyncedChecker()
	}
	defer informer.Run(ctx, all...)()
	last := "nothing: the API did not answer"
	p("waiting for the API")
	if !cache.WaitFor(ctx, "", synced...) {
		return notReady(ctx, began, last)
	}
	for {
		ok, state := seen(snapshot{
			nodes: informer.Stored[*corev1.Node](nodes), deployments: informer.Stored[*appsv1.Deployment](deployments),
			daemonSets: informer.Stored[*appsv1.DaemonSet](daemonSets), sets: informer.Stored[*appsv1.StatefulSet](sets), pods: informer.Stored[*corev1.Pod](pods),
		})
		if ok {
			return nil
		}
		if state != last {
			last = state
			p("waiting for " + state)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return notReady(ctx, began, last)
		}
	}
}

// notReady returns the timeout error of a wait with the last seen state. A cancellation is returned as is.
func notReady(ctx context.Context, began time.Time, last string) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	return &lab.Error{
		Exit: lab.ExitTimeout, Code: "timeout", Message: fmt.Sprintf("not ready after %s", time.Since(began).Round(time.Second)),
		Details: []string{"last seen: " + last, "nothing was removed"}, Err: ctx.Err(),
		Cure: "lab up continues to wait; lab diagnose collects logs and state",
	}
}
