package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"homelab/lab"
	"homelab/lab/informer"
)

// NotReady is the error of a wait that timed out, or ended early because of a Loop.
type NotReady struct {
	Waited  time.Duration
	Waiting []Status // workloads not ready when last seen
	Pods    []string // problems of their pods, with last log lines
	Loop    *Loop    // why the wait ended early, or nil
	Err     error    // the context's error, or the last failed request's
}

func (e *NotReady) Error() string {
	return fmt.Sprintf("%s after %s", Sentence(e.Waiting), e.Waited.Round(time.Second))
}

func (e *NotReady) Unwrap() error { return e.Err }

// Observe reads the named workloads ("Deployment/server") of a namespace, in order.
func Observe(ctx context.Context, client kubernetes.Interface, namespace string, names []string) ([]Status, error) {
	deployments, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("deployments of %s: %w", namespace, err)
	}
	sets, err := client.AppsV1().StatefulSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("stateful sets of %s: %w", namespace, err)
	}
	seen := map[string]Status{}
	for i := range deployments.Items {
		seen["Deployment/"+deployments.Items[i].Name] = OfDeployment(&deployments.Items[i])
	}
	for i := range sets.Items {
		seen["StatefulSet/"+sets.Items[i].Name] = OfStatefulSet(&sets.Items[i])
	}
	return pick(names, seen), nil
}

func pick(names []string, seen map[string]Status) []Status {
	out := make([]Status, 0, len(names))
	for _, n := range names {
		s, ok := seen[n]
		if !ok {
			s.Kind, s.Name, _ = strings.Cut(n, "/")
		}
		out = append(out, s)
	}
	return out
}

// Pending returns the workloads that are not done.
func Pending(all []Status) []Status {
	return slices.DeleteFunc(slices.Clone(all), func(s Status) bool { return s.Done })
}

// Sentence describes workloads in a short line: "repo-server 0 of 1 ready, and 2 more"; empty if there are none.
func Sentence(pending []Status) string {
	switch len(pending) {
	case 0:
		return ""
	case 1:
		return pending[0].String()
	}
	return fmt.Sprintf("%s, and %d more", pending[0], len(pending)-1)
}

// Wait watches the named workloads of a namespace until they are done, and reports the others. If ctx ends first, or a container
// keeps failing, the error is a *NotReady.
func Wait(ctx context.Context, client kubernetes.Interface, namespace string, names []string, p lab.Progress) error {
	start := time.Now()
	all, err := Observe(ctx, client, namespace, names)
	if err == nil && len(Pending(all)) == 0 {
		return nil
	}

	deployments := informer.New(client, client.AppsV1().Deployments(namespace), &appsv1.Deployment{})
	sets := informer.New(client, client.AppsV1().StatefulSets(namespace), &appsv1.StatefulSet{})
	pods := informer.New(client, client.CoreV1().Pods(namespace), &corev1.Pod{})
	informers := []cache.SharedIndexInformer{deployments, sets, pods}
	changed, failures := make(chan struct{}, 1), make(chan error, 1)
	for _, i := range informers {
		if err := informer.Follow(i, changed, failures); err != nil {
			return err
		}
	}
	defer informer.Run(ctx, informers...)()

	synced := func() bool { return deployments.HasSynced() && sets.HasSynced() && pods.HasSynced() }
	look := func() []Status {
		seen := map[string]Status{}
		for _, d := range informer.Stored[*appsv1.Deployment](deployments) {
			seen["Deployment/"+d.Name] = OfDeployment(d)
		}
		for _, s := range informer.Stored[*appsv1.StatefulSet](sets) {
			seen["StatefulSet/"+s.Name] = OfStatefulSet(s)
		}
		return Pending(pick(names, seen))
	}

	// HasSynced turns true a moment after the last event of the first list, so a slow ticker complements the events.
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	failed := func(pending []Status, loop *Loop, err error) error {
		e := &NotReady{Waited: time.Since(start), Waiting: pending, Loop: loop, Err: err}
		stored := informer.Stored[*corev1.Pod](pods)
		slices.SortFunc(stored, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
		for _, pod := range stored {
			if slices.ContainsFunc(pending, func(s Status) bool { return Owns(s, pod) }) {
				e.Pods = append(e.Pods, explain(context.WithoutCancel(ctx), client, pod)...)
			}
		}
		return e
	}
	pending, reported, loops := Pending(all), "", Loops{}
	var failure error
	for {
		if s := Sentence(pending); s != reported && s != "" {
			reported = s
			p(s)
		}
		select {
		case <-ctx.Done():
			return failed(pending, nil, errors.Join(ctx.Err(), failure))
		case failure = <-failures:
		case <-changed:
		case <-tick.C:
		}
		if !synced() {
			continue
		}
		failure = nil
		if pending = look(); len(pending) == 0 {
			return nil
		}
		for _, pod := range informer.Stored[*corev1.Pod](pods) {
			if !slices.ContainsFunc(pending, func(s Status) bool { return Owns(s, pod) }) {
				continue
			}
			if loop := loops.Note(pod); loop != nil {
				return failed(pending, loop, failure)
			}
		}
	}
}

// Owns reports whether a pod belongs to a workload, by its name.
func Owns(s Status, pod *corev1.Pod) bool { return strings.HasPrefix(pod.Name, s.Name+"-") }
