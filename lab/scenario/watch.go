package scenario

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// run watches until the recorder is closed.
func (r *Recorder) run(s Subject, w *watching) error {
	if s.isApplication() {
		return r.world.Engine.Watch(r.ctx, func(a Application) {
			at := ApplicationOf(a.Cluster, a.Addon)
			if a.Gone {
				r.see(at, State{Known: true}, "")
				return
			}
			r.see(at, State{Known: true, Application: &a}, "")
		}, w.looked)
	}
	client, err := r.world.Clusters.Client(s.Cluster)
	if err != nil {
		return err
	}
	resource, err := r.resource(client, s, w)
	if err != nil {
		return err
	}
	return r.inform(client, resource, s, w)
}

// resource finds where objects of a kind are. A kind that is not known yet comes with an addon: there is no object of it then, and it is asked for again.
func (r *Recorder) resource(client Client, s Subject, w *watching) (dynamic.ResourceInterface, error) {
	told := false
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		resource, err := client.Resource(s)
		if err == nil || !meta.IsNoMatchError(err) {
			return resource, err
		}
		if !told {
			told = true
			r.see(s, State{Known: true}, "")
			w.looked()
		}
		select {
		case <-r.ctx.Done():
			return nil, r.ctx.Err()
		case <-again.C:
		}
	}
}

// Resource is where objects like the subject are found in a cluster.
func (c Client) Resource(s Subject) (dynamic.ResourceInterface, error) {
	gv, err := schema.ParseGroupVersion(s.APIVersion)
	if err != nil {
		return nil, err
	}
	mapping, err := c.Mapper.RESTMapping(gv.WithKind(s.Kind).GroupKind(), gv.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.Dynamic.Resource(mapping.Resource), nil
	}
	if s.Namespace == "" {
		return nil, fmt.Errorf("%s %s is in a namespace, and none is named", s.Kind, s.Name)
	}
	return c.Dynamic.Resource(mapping.Resource).Namespace(s.Namespace), nil
}

// inform tells of one object, or of the events of a namespace, through client-go's informer, which outlives a connection.
func (r *Recorder) inform(client Client, resource dynamic.ResourceInterface, s Subject, w *watching) error {
	only := func(o *metav1.ListOptions) {
		if s.Name != "" {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", s.Name).String()
		}
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			only(&o)
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			only(&o)
			return resource.Watch(ctx, o)
		},
	}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source, client.Dynamic), &unstructured.Unstructured{}, 0, nil)
	if err := informer.SetTransform(prune); err != nil {
		return err
	}
	// What goes wrong is tried again by the informer, and it would log it: what cannot be seen is told by who waits for it.
	if err := informer.SetWatchErrorHandler(func(*cache.Reflector, error) {}); err != nil {
		return err
	}
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { r.object(s, o, false) },
		UpdateFunc: func(_, o any) { r.object(s, o, false) },
		DeleteFunc: func(o any) { r.object(s, o, true) },
	})
	if err != nil {
		return err
	}
	r.done.Go(func() {
		select {
		case <-handler.HasSyncedChecker().Done():
		case <-r.ctx.Done():
			return
		}
		if s.Name != "" && len(informer.GetStore().List()) == 0 {
			r.see(s, State{Known: true}, "")
		}
		w.looked()
	})
	informer.RunWithContext(r.ctx)
	return nil
}

// prune drops what is large and never asked for.
func prune(o any) (any, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		u.SetManagedFields(nil)
	}
	return o, nil
}

func (r *Recorder) object(s Subject, o any, gone bool) {
	if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = tombstone.Obj
	}
	u, ok := o.(*unstructured.Unstructured)
	switch {
	case !ok:
	case s.isEvents():
		if !gone {
			r.see(s, State{Known: true, Events: []map[string]any{u.Object}}, u.GetResourceVersion())
		}
	case s.Name != u.GetName(): // a fake that knows no field selectors
	case gone:
		r.see(s, State{Known: true}, u.GetResourceVersion())
	default:
		r.see(s, State{Known: true, Object: u.Object}, u.GetResourceVersion())
	}
}
