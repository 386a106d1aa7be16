package diagnose

import (
	"context"
	"path"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// answerWithin bounds one request to a cluster.
const answerWithin = 20 * time.Second

// kinds returns the resources read from every cluster. Secrets are read, too, but only to keep them out of the archive.
func kinds() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Version: "v1", Resource: "nodes"},
		{Version: "v1", Resource: "pods"},
		{Version: "v1", Resource: "events"},
		{Version: "v1", Resource: "services"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "apps", Version: "v1", Resource: "statefulsets"},
		{Group: "apps", Version: "v1", Resource: "daemonsets"},
	}
}

func (a *Archive) cluster(ctx context.Context, s Subject, name string) {
	cfg, err := s.Reach(name)
	if err != nil {
		a.add(path.Join(name, "error.txt"), nil, err)
		return
	}
	slow := rest.CopyConfig(cfg)
	slow.Timeout = answerWithin
	client, err := dynamic.NewForConfig(slow)
	if err != nil {
		a.add(path.Join(name, "error.txt"), nil, err)
		return
	}
	for _, r := range append(kinds(), s.Engine.Kinds...) {
		list, err := client.Resource(r).List(ctx, metav1.ListOptions{})
		if err != nil && slices.Contains(s.Engine.Kinds, r) {
			continue // only the hub has these
		}
		a.json(path.Join(name, r.Resource+".json"), list, err)
	}
	typed, err := kubernetes.NewForConfig(slow)
	if err != nil {
		return
	}
	a.secrets(ctx, typed, name)
	a.podLogs(ctx, s, name, typed)
}

// releases is the type of Helm's records, which are compressed: their values are nowhere verbatim.
const releases = "helm.sh/release.v1"

// secrets learns the values of a cluster's Secrets.
func (a *Archive) secrets(ctx context.Context, client kubernetes.Interface, name string) {
	list, err := client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{FieldSelector: "type!=" + releases})
	if err != nil {
		a.add(path.Join(name, "secrets.txt"), []byte("values of Secrets may remain where neither location nor format reveals them\n"), err)
		return
	}
	for _, secret := range list.Items {
		for key, value := range secret.Data {
			a.redact.Secret(key, string(value))
		}
	}
}

// podLogs adds the logs of the engine's pods and of every unhealthy pod.
func (a *Archive) podLogs(ctx context.Context, s Subject, cluster string, client kubernetes.Interface) {
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		a.add(path.Join(cluster, "pod-logs.txt"), nil, err)
		return
	}
	lines := int64(1000)
	for _, pod := range pods.Items {
		if pod.Namespace != s.Engine.Namespace && steady(pod) {
			continue
		}
		for _, container := range pod.Spec.Containers {
			out, err := client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container.Name, TailLines: &lines}).DoRaw(ctx)
			a.add(path.Join(cluster, "pods", pod.Namespace, pod.Name, container.Name+".log"), out, err)
		}
	}
}

// steady reports whether a pod is healthy and has never restarted.
func steady(pod corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if !c.Ready || c.RestartCount > 0 {
			return false
		}
	}
	return pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodSucceeded
}
