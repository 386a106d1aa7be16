package scenariotest

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// api is the API server of one cluster as seen from outside. client-go's fake cannot watch from a resource version, so
// a watch starts with all objects and the deletions since that version.
type api struct {
	Gate
	name     string
	clusters *Clusters

	mu      sync.Mutex
	deleted []tombstone
	breaks  chan struct{} // closed when all watches end
}

// tombstone is a deleted object.
type tombstone struct {
	resource  schema.GroupVersionResource
	namespace string
	object    *unstructured.Unstructured
}

// breakOff ends all watches, as a restart of the API server does.
func (a *api) breakOff() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.breaks)
	a.breaks = make(chan struct{})
}

// outside is a client whose calls pass through an api.
type outside struct {
	dynamic.Interface
	api *api
}

func (o outside) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	all := o.Interface.Resource(r)
	return everywhere{way{all, o.api, r, ""}, all}
}

type everywhere struct {
	way
	all dynamic.NamespaceableResourceInterface
}

func (e everywhere) Namespace(ns string) dynamic.ResourceInterface {
	return way{e.all.Namespace(ns), e.api, e.resource, ns}
}

// way is the client of one resource.
type way struct {
	dynamic.ResourceInterface
	api       *api
	resource  schema.GroupVersionResource
	namespace string
}

// asked makes a call unless the cluster does not answer.
func asked[T any](ctx context.Context, w way, call func() (T, error)) (T, error) {
	if err := w.api.through(ctx); err != nil {
		var none T
		return none, err
	}
	return call()
}

func (w way) Create(ctx context.Context, o *unstructured.Unstructured, options metav1.CreateOptions, sub ...string) (*unstructured.Unstructured, error) {
	return asked(ctx, w, func() (*unstructured.Unstructured, error) {
		if err := w.admitted("CREATE", o); err != nil {
			return nil, err
		}
		defer w.api.clusters.changed()
		return w.ResourceInterface.Create(ctx, managedBy(o, options.FieldManager), options, sub...)
	})
}

func (w way) Update(ctx context.Context, o *unstructured.Unstructured, options metav1.UpdateOptions, sub ...string) (*unstructured.Unstructured, error) {
	return asked(ctx, w, func() (*unstructured.Unstructured, error) {
		if err := w.admitted("UPDATE", o); err != nil {
			return nil, err
		}
		defer w.api.clusters.changed()
		return w.ResourceInterface.Update(ctx, managedBy(o, options.FieldManager), options, sub...)
	})
}

func (w way) Get(ctx context.Context, name string, options metav1.GetOptions, sub ...string) (*unstructured.Unstructured, error) {
	return asked(ctx, w, func() (*unstructured.Unstructured, error) { return w.ResourceInterface.Get(ctx, name, options, sub...) })
}

func (w way) Apply(ctx context.Context, name string, o *unstructured.Unstructured, options metav1.ApplyOptions, sub ...string) (*unstructured.Unstructured, error) {
	return asked(ctx, w, func() (*unstructured.Unstructured, error) {
		if err := w.admitted("UPDATE", o); err != nil {
			return nil, err
		}
		defer w.api.clusters.changed()
		return w.ResourceInterface.Apply(ctx, name, managedBy(o, options.FieldManager), options, sub...)
	})
}

// admitted returns why the cluster's policies refuse a change by a person, or nil.
func (w way) admitted(operation string, o *unstructured.Unstructured) error {
	return w.api.clusters.admit(w.api.name, person, operation, w.resource, o)
}

// managedBy enters a tool of people into an object's managed fields, as an API server does.
func managedBy(o *unstructured.Unstructured, manager string) *unstructured.Unstructured {
	if !strings.HasPrefix(manager, "kubectl") {
		return o
	}
	o = o.DeepCopy()
	list := slices.DeleteFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == manager })
	now := metav1.Now()
	fields := metav1.NewFieldsV1(strconv.Quote(strconv.FormatInt(now.UnixNano(), 10)))
	o.SetManagedFields(append(list, metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: &now, FieldsType: "FieldsV1", FieldsV1: fields}))
	return o
}

func (w way) Delete(ctx context.Context, name string, options metav1.DeleteOptions, sub ...string) error {
	_, err := asked(ctx, w, func() (struct{}, error) {
		defer w.api.clusters.changed()
		w.api.mu.Lock()
		defer w.api.mu.Unlock()
		o, err := w.ResourceInterface.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return struct{}{}, err
		}
		if err := w.admitted("DELETE", o); err != nil {
			return struct{}{}, err
		}
		w.api.clusters.stamp(o) // a deletion has its own version
		w.api.deleted = append(w.api.deleted, tombstone{w.resource, w.namespace, o})
		if w.resource.Resource == "namespaces" {
			w.api.empty(name)
		}
		return struct{}{}, w.ResourceInterface.Delete(ctx, name, options, sub...)
	})
	return err
}

// empty deletes what is in a namespace that goes.
func (a *api) empty(namespace string) {
	for _, kind := range kinds() {
		mapping, err := a.clusters.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		must(err)
		for _, o := range a.clusters.list(a.name, kind) {
			if o.GetNamespace() == namespace {
				a.clusters.stamp(&o)
				a.deleted = append(a.deleted, tombstone{mapping.Resource, namespace, &o})
				must(a.clusters.clients[a.name].Tracker().Delete(mapping.Resource, namespace, o.GetName()))
			}
		}
	}
}

// List sets the list's version, so that Watch reports later deletions.
func (w way) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	return asked(ctx, w, func() (*unstructured.UnstructuredList, error) {
		if w.api.clusters.Forbidden[w.resource.Resource] {
			return nil, apierrors.NewForbidden(w.resource.GroupResource(), "", nil)
		}
		if !w.api.clusters.serves(w.api.name, w.resource) { // as to a client that has discovered the kind before it went
			return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: "the server could not find the requested resource"}}
		}
		w.api.mu.Lock()
		defer w.api.mu.Unlock()
		version := w.api.clusters.latest()
		list, err := w.ResourceInterface.List(ctx, options)
		if err == nil {
			list.SetResourceVersion(strconv.Itoa(version))
		}
		return list, err
	})
}

func (w way) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return asked(ctx, w, func() (watch.Interface, error) {
		since, err := strconv.Atoi(options.ResourceVersion)
		if err != nil {
			return nil, apierrors.NewBadRequest("a watch without a version to watch from")
		}
		w.api.mu.Lock()
		defer w.api.mu.Unlock()
		inner, err := w.ResourceInterface.Watch(ctx, options)
		if err != nil {
			return nil, err
		}
		list, err := w.ResourceInterface.List(ctx, options)
		if err != nil {
			inner.Stop()
			return nil, err
		}
		var first []watch.Event
		later := func(o *unstructured.Unstructured) bool {
			version, err := strconv.Atoi(o.GetResourceVersion())
			return err == nil && version > since
		}
		for _, t := range w.api.deleted {
			if t.resource == w.resource && (w.namespace == "" || t.namespace == w.namespace) && later(t.object) {
				first = append(first, watch.Event{Type: watch.Deleted, Object: t.object})
			}
		}
		for i := range list.Items {
			if later(&list.Items[i]) {
				first = append(first, watch.Event{Type: watch.Modified, Object: &list.Items[i]})
			}
		}
		return w.api.forward(ctx, inner, first), nil
	})
}

// forward forwards a watch until it breaks off. It is silent while the cluster does not answer.
func (a *api) forward(ctx context.Context, inner watch.Interface, first []watch.Event) watch.Interface {
	ctx, stop := context.WithCancel(ctx)
	breaks := a.breaks
	events := make(chan watch.Event)
	pass := func(e watch.Event) bool {
		if a.through(ctx) != nil {
			return false
		}
		select {
		case events <- e:
			return true
		case <-ctx.Done():
		case <-breaks:
		}
		return false
	}
	go func() {
		defer close(events)
		defer inner.Stop()
		for _, e := range first {
			if !pass(e) {
				return
			}
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-breaks:
				return
			case e, open := <-inner.ResultChan():
				if !open {
					return
				}
				if o, ok := e.Object.(*unstructured.Unstructured); ok && e.Type == watch.Deleted {
					o = o.DeepCopy()
					a.clusters.stamp(o)
					e.Object = o
				}
				if !pass(e) {
					return
				}
			}
		}
	}()
	return forwarded{events, stop}
}

type forwarded struct {
	events chan watch.Event
	stop   func()
}

func (f forwarded) ResultChan() <-chan watch.Event { return f.events }
func (f forwarded) Stop()                          { f.stop() }
