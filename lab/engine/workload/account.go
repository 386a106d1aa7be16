package workload

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"homelab/lab"
)

// estranged returns the pods of workloads, named as for Wait, whose ServiceAccount was removed and made again since they began. The token that they have is the
// former one's, which no API server takes, and kubelet does not renew it before most of its hour is over.
func estranged(ctx context.Context, client kubernetes.Interface, namespace string, names []string) ([]corev1.Pod, error) {
	accounts, err := client.CoreV1().ServiceAccounts(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("service accounts: %w", err)
	}
	since := map[string]time.Time{}
	for _, a := range accounts.Items {
		if at := a.CreationTimestamp.Time; !at.After(time.Now()) { // of a clock that was ahead
			since[a.Name] = at
		}
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("pods: %w", err)
	}
	all := pick(names, nil)
	var list []corev1.Pod
	for _, pod := range pods.Items {
		own := slices.ContainsFunc(all, func(s Status) bool { return Owns(s, &pod) })
		over := pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if own && !over && pod.CreationTimestamp.Time.Before(since[pod.Spec.ServiceAccountName]) {
			list = append(list, pod)
		}
	}
	return list, nil
}

// restart deletes pods, which their workloads make again, and waits until they are gone: until then a workload may count them.
func restart(ctx context.Context, client kubernetes.Interface, pods []corev1.Pod, p lab.Progress) error {
	for _, pod := range pods {
		p("restarting " + pod.Name + ", whose ServiceAccount is another one")
		err := client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
	}
	for _, pod := range pods {
		for {
			now, err := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID {
				break
			}
			if lab.Sleep(ctx, time.Second) != nil {
				return nil // the time is up, and Wait says of what
			}
		}
	}
	return nil
}

// Waiting says what keeps workloads from serving: a short line, empty if they serve.
func Waiting(ctx context.Context, client kubernetes.Interface, namespace string, names []string) (string, error) {
	pods, err := estranged(ctx, client, namespace, names)
	if err != nil {
		return "", err
	}
	if len(pods) > 0 {
		return pods[0].Name + " has the token of a ServiceAccount that is gone", nil
	}
	all, err := Observe(ctx, client, namespace, names)
	return Sentence(Pending(all)), err
}
