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

// observer tells the recorder of one object, or of the events of a namespace. client-go's informer would go on over a watch that broke and say nothing of it; here
// that is what must be known.
type observer struct {
	*watching
	recorder *Recorder
	resource dynamic.ResourceInterface
	told     map[string]bool // events, by id and version
}

// once lists, and watches from there until the watch ends, the cluster does not answer, or it is to start over.
func (o *observer) once(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	list, err := o.list(ctx, 0)
	if err != nil {
		return err
	}
	slow := time.AfterFunc(answerWithin, func() { stop(noAnswer{answerWithin}) })
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
	o.tellAll(list)
	o.looked()
	beat := time.NewTicker(beatEvery)
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
					o.tell(u, e.Type == watch.Deleted)
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

// list asks the cluster; limit 0 is all.
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

// tellAll tells of what there is. What is not there is told, too.
func (o *observer) tellAll(list *unstructured.UnstructuredList) {
	if o.of.isEvents() {
		o.tellEvents(list)
		return
	}
	for i := range list.Items {
		if list.Items[i].GetName() == o.of.Name { // a fake knows no field selectors
			o.tell(&list.Items[i], false)
			return
		}
	}
	o.recorder.see(o.of, State{Known: true}, "")
}

// tellEvents tells of events that nobody has seen. Those of before the story are history.
func (o *observer) tellEvents(list *unstructured.UnstructuredList) {
	o.recorder.see(o.of, State{Known: true}, "")
	first := o.told == nil
	if first {
		o.told = map[string]bool{}
	}
	for i := range list.Items {
		u := &list.Items[i]
		if first && happened(u).Before(o.recorder.began.Truncate(time.Second)) {
			o.told[eventID(u)] = true
			continue
		}
		o.tell(u, false)
	}
}

func eventID(u *unstructured.Unstructured) string {
	return u.GetName() + " " + string(u.GetUID()) + " " + u.GetResourceVersion()
}

// happened is when an event was last reported; the zero time where it does not say.
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

func (o *observer) tell(u *unstructured.Unstructured, gone bool) {
	if len(u.GetManagedFields()) > 0 { // large, and never asked for
		u = u.DeepCopy()
		u.SetManagedFields(nil)
	}
	state := State{Known: true, Object: u.Object}
	switch {
	case o.of.isEvents():
		if gone || o.told[eventID(u)] {
			return
		}
		o.told[eventID(u)] = true
		state = State{Known: true, Events: []map[string]any{u.Object}}
	case u.GetName() != o.of.Name:
		return
	case gone:
		state.Object = nil
	}
	o.recorder.see(o.of, state, u.GetResourceVersion())
}
