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

// podsWithStaleToken returns the pods of workloads, named as for Wait, whose ServiceAccount was recreated after their start. Their token is the former account's, which the
// API server rejects, and kubelet renews it only near the end of its hour.
func podsWithStaleToken(ctx context.Context, client kubernetes.Interface, namespace string, names []string) ([]corev1.Pod, error) {
	accounts, err := client.CoreV1().ServiceAccounts(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("service accounts: %w", err)
	}
	since := map[string]time.Time{}
	for _, a := range accounts.Items {
		if at := a.CreationTimestamp.Time; !at.After(time.Now()) { // ignore clocks that were ahead
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

// restart deletes pods for their workloads to recreate, and waits until they are gone, as a workload may count them until then.
func restart(ctx context.Context, client kubernetes.Interface, pods []corev1.Pod, p lab.Progress) error {
	for _, pod := range pods {
		p("restarting " + pod.Name + ", whose ServiceAccount was recreated")
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
				return nil // timed out; Wait reports the details
			}
		}
	}
	return nil
}

// Waiting describes the workloads that are not ready in a short line, or returns "".
func Waiting(ctx context.Context, client kubernetes.Interface, namespace string, names []string) (string, error) {
	pods, err := podsWithStaleToken(ctx, client, namespace, names)
	if err != nil {
		return "", err
	}
	if len(pods) > 0 {
		return pods[0].Name + " has the token of a deleted ServiceAccount", nil
	}
	all, err := Observe(ctx, client, namespace, names)
	return Sentence(Pending(all)), err
}
