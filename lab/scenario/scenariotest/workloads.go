package scenariotest

import (
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
)

// refusedRetry is the delay before a rejected pod is retried.
const refusedRetry = 2 * time.Second

// start starts the pods of a workload whose readiness probe has an initial delay; others are ready immediately. A StatefulSet's pods start one by one.
func (c *Clusters) start(client *fake.FakeDynamicClient, resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	if delayOf(o.Object) == 0 {
		return
	}
	w := &workload{clusters: c, client: client, resource: resource, created: o}
	if o.GetKind() == "StatefulSet" {
		time.AfterFunc(0, func() { w.pod(0) })
		return
	}
	for n := range replicasOf(o.Object) {
		time.AfterFunc(0, func() { w.pod(n) })
	}
}

// workload is a Deployment or StatefulSet with its pods.
type workload struct {
	clusters *Clusters
	client   *fake.FakeDynamicClient
	resource schema.GroupVersionResource
	created  *unstructured.Unstructured
}

// now returns the live object, or nil if removed.
func (w *workload) now() *unstructured.Unstructured {
	live, err := w.client.Tracker().Get(w.resource, w.created.GetNamespace(), w.created.GetName())
	if err != nil {
		return nil
	}
	if o, ok := live.(*unstructured.Unstructured); ok && o.GetUID() == w.created.GetUID() {
		return o.DeepCopy()
	}
	return nil
}

// pod creates a pod once the webhooks permit it.
func (w *workload) pod(n int64) {
	o := w.now()
	if o == nil {
		return
	}
	if why := w.refused(o); why != "" {
		w.report(o, fmt.Sprintf("create Pod %s-%d in %s %s failed error: %s", o.GetName(), n, o.GetKind(), o.GetName(), why))
		time.AfterFunc(refusedRetry, func() { w.pod(n) })
		return
	}
	time.AfterFunc(delayOf(o.Object), func() { w.ready(n) })
}

func (w *workload) ready(n int64) {
	o := w.now()
	if o == nil {
		return
	}
	ready, _, _ := unstructured.NestedInt64(o.Object, "status", "readyReplicas")
	must(unstructured.SetNestedField(o.Object, ready+1, "status", "readyReplicas"))
	w.clusters.stamp(o)
	must(w.client.Tracker().Update(w.resource, o, o.GetNamespace()))
	w.clusters.changed()
	if o.GetKind() == "StatefulSet" && n+1 < replicasOf(o.Object) {
		w.pod(n + 1)
	}
}

// report reports a rejection as an event.
func (w *workload) report(about *unstructured.Unstructured, message string) {
	event := manifest("", "v1", "Event", about.GetNamespace(), fmt.Sprintf("%s.%d", about.GetName(), time.Now().UnixNano()), nil, nil, map[string]any{
		"reason": "FailedCreate", "message": message, "lastTimestamp": time.Now().Format(time.RFC3339Nano),
		"involvedObject": map[string]any{"kind": about.GetKind(), "namespace": about.GetNamespace(), "name": about.GetName()},
	})
	u := &unstructured.Unstructured{Object: event.content}
	w.clusters.stamp(u)
	must(w.client.Tracker().Create(schema.GroupVersionResource{Version: "v1", Resource: "events"}, u, u.GetNamespace()))
}

// refused returns why a webhook for a workload's pod cannot be called, or "".
func (w *workload) refused(o *unstructured.Unstructured) string {
	pod, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
	for _, u := range w.list(schema.GroupVersionKind{Group: admissionv1.GroupName, Version: "v1", Kind: "MutatingWebhookConfiguration"}) {
		var config admissionv1.MutatingWebhookConfiguration
		must(runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &config))
		for _, hook := range config.Webhooks {
			asked := slices.ContainsFunc(hook.Rules, func(r admissionv1.RuleWithOperations) bool {
				return slices.Contains(r.Resources, "pods") && slices.Contains(r.Operations, admissionv1.Create)
			})
			if !asked || !selects(hook.NamespaceSelector, map[string]string{"kubernetes.io/metadata.name": o.GetNamespace()}) || !selects(hook.ObjectSelector, pod) {
				continue
			}
			if s := hook.ClientConfig.Service; s != nil && !w.serves(s.Namespace, s.Name) {
				return fmt.Sprintf("Internal error occurred: failed calling webhook %q: failed to call webhook: Post \"https://%s.%s.svc:443\": dial tcp 10.96.0.10:443: connect: connection refused",
					hook.Name, s.Name, s.Namespace)
			}
		}
	}
	return ""
}

// serves reports whether a service has a ready pod.
func (w *workload) serves(namespace, service string) bool {
	for _, s := range w.list(schema.GroupVersionKind{Version: "v1", Kind: "Service"}) {
		if s.GetNamespace() != namespace || s.GetName() != service {
			continue
		}
		selector, _, _ := unstructured.NestedStringMap(s.Object, "spec", "selector")
		for _, d := range w.list(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}) {
			pod, _, _ := unstructured.NestedStringMap(d.Object, "spec", "template", "metadata", "labels")
			if d.GetNamespace() == namespace && labels.SelectorFromSet(selector).Matches(labels.Set(pod)) && isReady(d.Object) {
				return true
			}
		}
	}
	return false
}

func (w *workload) list(kind schema.GroupVersionKind) []unstructured.Unstructured {
	return w.clusters.listed(w.client, kind)
}

func (c *Clusters) list(cluster string, kind schema.GroupVersionKind) []unstructured.Unstructured {
	return c.listed(c.clients[cluster], kind)
}

func (c *Clusters) listed(client *fake.FakeDynamicClient, kind schema.GroupVersionKind) []unstructured.Unstructured {
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	must(err)
	all, err := client.Tracker().List(mapping.Resource, kind, "")
	must(err)
	u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(all)
	must(err)
	list := unstructured.UnstructuredList{}
	list.SetUnstructuredContent(u)
	return list.Items
}

func selects(s *metav1.LabelSelector, of map[string]string) bool {
	if s == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	must(err)
	return selector.Matches(labels.Set(of))
}

// isReady reports whether all pods of a workload are ready. Other objects always are.
func isReady(o map[string]any) bool {
	ready, _, _ := unstructured.NestedInt64(o, "status", "readyReplicas")
	return delayOf(o) == 0 || ready >= replicasOf(o)
}

func replicasOf(o map[string]any) int64 {
	n, _, _ := unstructured.NestedInt64(o, "spec", "replicas")
	return n
}

// delayOf returns how long a workload's pods take to become ready.
func delayOf(o map[string]any) time.Duration {
	containers, _, _ := unstructured.NestedSlice(o, "spec", "template", "spec", "containers")
	longest := int64(0)
	for _, c := range containers {
		if c, ok := c.(map[string]any); ok {
			seconds, _, _ := unstructured.NestedInt64(c, "readinessProbe", "initialDelaySeconds")
			longest = max(longest, seconds)
		}
	}
	return time.Duration(longest) * time.Second
}

// must panics on errors of an in-memory client, which are bugs of this package.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
