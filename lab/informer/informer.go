// Package informer makes client-go informers of single resources. client-go's generated ones compile with the informers of every resource of Kubernetes, a sixth of
// lab's compile time.
package informer

import (
	"context"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Resource is what client-go's typed and dynamic clients of a resource have in common. L is the type of its lists.
type Resource[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// New returns an informer of a resource with objects of type T. It must be run. client is the one that r is from.
func New[T, L runtime.Object](client any, r Resource[L], example T) cache.SharedIndexInformer {
	lw := &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return r.List(ctx, o) },
		WatchFuncWithContext: r.Watch,
	}
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lw, client), example, 0, nil)
}

// Follow signals events on changed, and errors of broken watches, which the informer repeats, on failures, which may be nil. Signals that nobody has received are
// not repeated. Follow must precede Run.
func Follow(i cache.SharedIndexInformer, changed chan<- struct{}, failures chan<- error) error {
	// The default handler would write to standard error.
	if err := i.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { offer(failures, err) }); err != nil {
		return err
	}
	signal := func() { offer(changed, struct{}{}) }
	_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { signal() }, UpdateFunc: func(any, any) { signal() }, DeleteFunc: func(any) { signal() },
	})
	return err
}

func offer[T any](c chan<- T, v T) {
	select {
	case c <- v:
	default:
	}
}

// Run runs informers until ctx ends or stop is called, which waits for their end.
func Run(ctx context.Context, informers ...cache.SharedIndexInformer) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, i := range informers {
		running.Go(func() { i.RunWithContext(ctx) })
	}
	return func() { cancel(); running.Wait() }
}

// Stored returns the informer's objects by name.
func Stored[T metav1.Object](i cache.SharedIndexInformer) []T {
	var list []T
	for _, o := range i.GetStore().List() {
		if t, ok := o.(T); ok {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
	return list
}
