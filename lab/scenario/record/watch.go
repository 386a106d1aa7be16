package record

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"homelab/lab"
	"homelab/lab/scenario"
)

// kinds are those whose objects are watched. Secrets are not: a scenario is committed.
func kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		{Group: "apps", Version: "v1", Kind: "Deployment"},
		{Group: "apps", Version: "v1", Kind: "StatefulSet"},
		{Group: "apps", Version: "v1", Kind: "DaemonSet"},
		{Version: "v1", Kind: "Service"},
		{Version: "v1", Kind: "ConfigMap"},
		{Version: "v1", Kind: "ServiceAccount"},
		{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
		{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
		{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"},
		{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"},
		{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"},
	}
}

// watch watches a kind in a cluster, if the cluster serves it. ready is closed after the first attempt.
func (r *Recording) watch(ctx context.Context, cluster string, kind schema.GroupVersionKind, ready chan struct{}) {
	for first := true; ctx.Err() == nil; first = false {
		_ = r.watchOnce(ctx, cluster, kind, func() {
			if first {
				close(ready)
				first = false
			}
		})
		if first {
			close(ready)
		}
		_ = lab.Sleep(ctx, lookEvery) // the loop sees ctx end
	}
}

func (r *Recording) watchOnce(ctx context.Context, cluster string, kind schema.GroupVersionKind, ready func()) error {
	resource, err := r.resource(cluster, kind)
	if err != nil {
		return err
	}
	list, err := resource.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	r.listedAll(cluster, kind, list.Items)
	watcher, err := resource.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	ready()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, open := <-watcher.ResultChan():
			u, ok := e.Object.(*unstructured.Unstructured)
			if !open || e.Type == watch.Error || !ok {
				return nil
			}
			if e.Type != watch.Bookmark {
				r.object(cluster, u, e.Type == watch.Deleted)
			}
		}
	}
}

func (r *Recording) resource(cluster string, kind schema.GroupVersionKind) (dynamic.ResourceInterface, error) {
	client, err := r.world.Clusters.Client(cluster)
	if err != nil {
		return nil, err
	}
	mapping, err := client.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	return client.Dynamic.Resource(mapping.Resource), nil
}

func subjectOf(cluster string, u *unstructured.Unstructured) scenario.Subject {
	return scenario.Subject{Cluster: cluster, APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
}

// listedAll takes over a list: the first, or one after an interruption, during which deletions were missed.
func (r *Recording) listedAll(cluster string, kind schema.GroupVersionKind, items []unstructured.Unstructured) {
	key := cluster + " " + kind.String()
	r.mu.Lock()
	again := r.listed[key]
	r.listed[key] = true
	there := map[scenario.Subject]bool{}
	for i := range items {
		s := subjectOf(cluster, &items[i])
		there[s] = true
		if !again {
			r.objects[s] = seen{at: r.began, object: items[i].Object}
		}
	}
	var gone []scenario.Subject
	for s := range r.objects {
		if s.Cluster == cluster && s.Kind == kind.Kind && strings.HasPrefix(s.APIVersion, kind.GroupVersion().String()) && !there[s] {
			gone = append(gone, s)
		}
	}
	for _, s := range gone {
		delete(r.objects, s)
	}
	r.mu.Unlock()
	for i := range items {
		if again {
			r.object(cluster, &items[i], false)
		}
	}
}

// object takes over a state, and finds out whether somebody made it.
func (r *Recording) object(cluster string, u *unstructured.Unstructured, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := subjectOf(cluster, u)
	was, known := r.objects[s]
	before := r.viewLocked()
	if gone {
		delete(r.objects, s)
		if known && len(u.GetOwnerReferences()) == 0 {
			r.did(deletion(s, before))
		}
		return
	}
	if known && version(was.object) == u.GetResourceVersion() {
		return
	}
	r.objects[s] = seen{at: time.Now(), object: u.Object}
	if !byHand(was.object, u.Object, r.began) {
		return
	}
	if a := edited(s, was.object, u, before); a != nil {
		r.did(a)
	}
}

func version(o map[string]any) string {
	v, _, _ := unstructured.NestedString(o, "metadata", "resourceVersion")
	return v
}

// people are the field managers of what people use. Controllers and engines have others.
var people = regexp.MustCompile(`(?i)^(kubectl|k9s|(open|free)?lens|headlamp|dashboard)`)

// byHand reports whether somebody changed an object: the entry of a manager that people use is new or another one.
func byHand(was, is map[string]any, began time.Time) bool {
	had := managed(was)
	for key, entry := range managed(is) {
		old, known := had[key]
		if known && old != entry || !known && (was != nil || !entry.time().Before(began.Truncate(time.Second))) {
			return true
		}
	}
	return false
}

type managedEntry struct{ at, fields string }

func (e managedEntry) time() time.Time {
	t, _ := time.Parse(time.RFC3339, e.at) // zero is before any recording
	return t
}

// managed returns the entries of people by manager, operation and subresource.
func managed(o map[string]any) map[string]managedEntry {
	entries := map[string]managedEntry{}
	list, _, _ := unstructured.NestedSlice(o, "metadata", "managedFields")
	for _, e := range list {
		m, _ := e.(map[string]any)
		manager, _ := m["manager"].(string)
		operation, _ := m["operation"].(string)
		subresource, _ := m["subresource"].(string)
		if !people.MatchString(manager) || subresource == "status" {
			continue
		}
		at, _ := m["time"].(string)
		fields, err := json.Marshal(m["fieldsV1"])
		if err == nil {
			entries[manager+" "+operation+" "+subresource] = managedEntry{at, string(fields)}
		}
	}
	return entries
}
