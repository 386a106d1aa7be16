package scenario

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// observer records one object, or the events of a namespace. client-go's informer silently reconnects a broken watch;
// here the interruption must be known.
type observer struct {
	*watching
	recorder *Recorder
	resource dynamic.ResourceInterface
	recorded map[string]bool // events by id and version
}

// once lists, then watches until the watch ends, the cluster does not answer, or a restart is requested.
func (o *observer) once(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	list, err := o.list(ctx, 0)
	if err != nil {
		return err
	}
	slow := time.AfterFunc(callTimeout, func() { stop(noAnswer{callTimeout}) })
	watcher, err := o.resource.Watch(ctx, o.options(list.GetResourceVersion()))
	slow.Stop()
	if err == nil {
		defer watcher.Stop()
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	o.recordAll(list)
	o.looked()
	beat := time.NewTicker(probeEvery)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-o.again:
			return errStartOver
		case <-beat.C:
			if _, err := o.list(ctx, 1); err != nil {
				return err
			}
		case e, open := <-watcher.ResultChan():
			switch {
			case !open:
				return errors.New("its watch ended")
			case e.Type == watch.Error:
				return apierrors.FromObject(e.Object)
			case e.Type != watch.Bookmark:
				if u, ok := e.Object.(*unstructured.Unstructured); ok {
					o.record(u, e.Type == watch.Deleted)
				}
			}
		}
	}
}

func (o *observer) options(version string) metav1.ListOptions {
	options := metav1.ListOptions{ResourceVersion: version}
	if o.of.Name != "" {
		options.FieldSelector = fields.OneTermEqualSelector("metadata.name", o.of.Name).String()
	}
	return options
}

// list lists the subject's objects; limit 0 is all.
func (o *observer) list(ctx context.Context, limit int64) (*unstructured.UnstructuredList, error) {
	options := o.options("")
	options.Limit = limit
	var list *unstructured.UnstructuredList
	err := answered(ctx, func(ctx context.Context) (err error) {
		list, err = o.resource.List(ctx, options)
		return err
	})
	return list, err
}

// recordAll records a list, absence included.
func (o *observer) recordAll(list *unstructured.UnstructuredList) {
	if o.of.isEvents() {
		o.recordEvents(list)
		return
	}
	for i := range list.Items {
		if list.Items[i].GetName() == o.of.Name { // the fake client ignores field selectors
			o.record(&list.Items[i], false)
			return
		}
	}
	o.recorder.see(o.of, State{Known: true}, "")
}

// recordEvents records new events. Those from before the story are skipped.
func (o *observer) recordEvents(list *unstructured.UnstructuredList) {
	o.recorder.see(o.of, State{Known: true}, "")
	first := o.recorded == nil
	if first {
		o.recorded = map[string]bool{}
	}
	for i := range list.Items {
		u := &list.Items[i]
		if first && happened(u).Before(o.recorder.began.Truncate(time.Second)) {
			o.recorded[eventID(u)] = true
			continue
		}
		o.record(u, false)
	}
}

func eventID(u *unstructured.Unstructured) string {
	return u.GetName() + " " + string(u.GetUID()) + " " + u.GetResourceVersion()
}

// happened is when an event was last reported, or the zero time.
func happened(u *unstructured.Unstructured) time.Time {
	last := u.GetCreationTimestamp().Time
	for _, at := range [][]string{{"lastTimestamp"}, {"eventTime"}, {"series", "lastObservedTime"}} {
		text, _, _ := unstructured.NestedString(u.Object, at...)
		if t, err := time.Parse(time.RFC3339, text); err == nil && t.After(last) {
			last = t
		}
	}
	return last
}

func (o *observer) record(u *unstructured.Unstructured, gone bool) {
	if len(u.GetManagedFields()) > 0 { // large and never needed
		u = u.DeepCopy()
		u.SetManagedFields(nil)
	}
	state := State{Known: true, Object: u.Object}
	switch {
	case o.of.isEvents():
		if gone || o.recorded[eventID(u)] {
			return
		}
		o.recorded[eventID(u)] = true
		state = State{Known: true, Events: []map[string]any{u.Object}}
	case u.GetName() != o.of.Name:
		return
	case gone:
		state.Object = nil
	}
	o.recorder.see(o.of, state, u.GetResourceVersion())
}
