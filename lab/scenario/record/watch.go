package record

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"homelab/lab"
	"homelab/lab/informer"
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

// listWithin is how long the first lists of all kinds may take.
const listWithin = 15 * time.Second

// watched is a kind that a cluster serves.
type watched struct {
	cluster  string
	kind     schema.GroupVersionKind
	informer cache.SharedIndexInformer
	listed   cache.InformerSynced
}

// objectsOf returns what is watched in a cluster.
func (r *Recording) objectsOf(cluster string) ([]watched, error) {
	client, err := r.world.Clusters.Client(cluster)
	if err != nil {
		return nil, err
	}
	var list []watched
	for _, kind := range kinds() {
		mapping, err := client.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", cluster, err)
		}
		i := informer.New(client.Dynamic, client.Dynamic.Resource(mapping.Resource), &unstructured.Unstructured{})
		if err := informer.Follow(i, nil, nil); err != nil {
			return nil, err
		}
		handler, err := i.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(o any, first bool) {
				if u, ok := o.(*unstructured.Unstructured); ok && first {
					r.known(cluster, u)
				} else if ok {
					r.object(cluster, u, false)
				}
			},
			UpdateFunc: func(_, o any) {
				if u, ok := o.(*unstructured.Unstructured); ok {
					r.object(cluster, u, false)
				}
			},
			DeleteFunc: func(o any) {
				if last, ok := o.(cache.DeletedFinalStateUnknown); ok { // while the watch was interrupted
					o = last.Obj
				}
				if u, ok := o.(*unstructured.Unstructured); ok {
					r.object(cluster, u, true)
				}
			},
		})
		if err != nil {
			return nil, err
		}
		list = append(list, watched{cluster, kind, i, handler.HasSynced})
	}
	return list, nil
}

// watchObjects watches the objects of all clusters until ctx ends or stop is called, and returns once it has their first lists.
func (r *Recording) watchObjects(ctx context.Context) (stop func(), err error) {
	var all []watched
	var informers []cache.SharedIndexInformer
	for _, c := range r.world.Estate.Clusters {
		list, err := r.objectsOf(c.Name)
		if err != nil {
			return nil, err
		}
		for _, w := range list {
			informers = append(informers, w.informer)
		}
		all = append(all, list...)
	}
	stop = informer.Run(ctx, informers...)
	within, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	for _, w := range all {
		if !cache.WaitForCacheSync(within.Done(), w.listed) {
			stop()
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, unlisted("cluster "+w.cluster, w.kind.Kind+"s")
		}
	}
	return stop, nil
}

func unlisted(who, what string) error {
	return &lab.Error{
		Exit: lab.ExitTimeout, Code: "timeout", Message: fmt.Sprintf("%s did not list its %s within %s", who, what, lab.WholeSeconds(listWithin)), Cure: "lab status shows whether it answers",
	}
}

func subjectOf(cluster string, u *unstructured.Unstructured) scenario.Subject {
	return scenario.Subject{Cluster: cluster, APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
}

// known takes over an object that was there before the recording.
func (r *Recording) known(cluster string, u *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.objects[subjectOf(cluster, u)] = seen{at: r.began, object: u.Object}
}

// object updates the state of an object, and adds what a person did to it.
func (r *Recording) object(cluster string, u *unstructured.Unstructured, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := subjectOf(cluster, u)
	was, known := r.objects[s]
	if !gone && known && version(was.object) == u.GetResourceVersion() {
		return
	}
	var before view // a copy, for actions only
	did := gone && known && len(u.GetOwnerReferences()) == 0 || !gone && byHand(was.object, u.Object, r.began)
	if did {
		before = r.viewLocked()
	}
	if gone {
		delete(r.objects, s)
	} else {
		r.objects[s] = seen{at: time.Now(), object: u.Object}
	}
	switch {
	case !did:
	case gone:
		r.did(deletion(s, before))
	default:
		if a := edited(s, was.object, u, before); a != nil {
			r.did(a)
		}
	}
}

func version(o map[string]any) string {
	v, _, _ := unstructured.NestedString(o, "metadata", "resourceVersion")
	return v
}

// people are the field managers of what people use. Controllers and engines have others.
var people = regexp.MustCompile(`(?i)^(kubectl|k9s|(open|free)?lens|headlamp|dashboard)`)

// byHand reports whether a person changed an object: the entry of a manager that people use is new or another one.
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
