package argocd

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// apply makes an object so by server-side apply, and returns how it was before (nil when it was not there) and how it is now. An object that is as it
// should be is only read: its resourceVersion stays, and no admission webhook is bothered.
func apply(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, want *unstructured.Unstructured) (before, after *unstructured.Unstructured, err error) {
	before, same, err := compare(ctx, client, resource, want)
	if err != nil || same {
		return before, before, err
	}
	objects, name := place(client, resource, want)
	after, err = objects.Apply(ctx, want.GetName(), want, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return before, after, nil
}

// compare returns an object as it is, nil when it is not there, and whether that is as it should be.
func compare(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, want *unstructured.Unstructured) (have *unstructured.Unstructured, same bool, err error) {
	objects, name := place(client, resource, want)
	have, err = objects.Get(ctx, want.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("%s: %w", name, err)
	}
	return have, covers(have.Object, want.Object) && !leftover(have, want), nil
}

// place is where an object is, and what it is called in messages.
func place(client dynamic.Interface, resource schema.GroupVersionResource, o *unstructured.Unstructured) (dynamic.ResourceInterface, string) {
	name := strings.ToLower(o.GetKind()) + " " + o.GetName()
	if ns := o.GetNamespace(); ns != "" {
		return client.Resource(resource).Namespace(ns), name
	}
	return client.Resource(resource), name
}

// changed reports whether applying made a difference to anything that lab or Git could have asked for.
func changed(before, after *unstructured.Unstructured) bool {
	if before == nil {
		return true
	}
	return !reflect.DeepEqual(essence(before), essence(after))
}

// essence is an object without what the API server and controllers keep in it.
func essence(o *unstructured.Unstructured) map[string]any {
	out := map[string]any{"labels": o.GetLabels(), "annotations": o.GetAnnotations(), "finalizers": o.GetFinalizers()}
	for k, v := range o.Object {
		if k != "metadata" && k != "status" && k != "operation" {
			out[k] = v
		}
	}
	return out
}

// covers reports whether every leaf of want is in live with the same value.
func covers(live, want any) bool {
	w, ok := want.(map[string]any)
	if !ok {
		return same(live, want)
	}
	l, ok := live.(map[string]any)
	if !ok {
		return false
	}
	for k, v := range w {
		if lv, has := l[k]; !has || !covers(lv, v) {
			return false
		}
	}
	return true
}

// same compares values as JSON does: YAML and JSON decoders differ in the type of whole numbers.
func same(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// leftover reports whether lab owns a field of live that want no longer has. The API server keeps the answer in managedFields.
func leftover(live, want *unstructured.Unstructured) bool {
	for _, e := range live.GetManagedFields() {
		if e.Manager != fieldManager || e.Operation != metav1.ManagedFieldsOperationApply || e.FieldsV1 == nil {
			continue
		}
		var owned map[string]any
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &owned) != nil {
			return true
		}
		return !within(owned, want.Object)
	}
	// lab never applied this object, so it owns nothing of it yet; applying makes it the owner.
	return true
}

// within reports whether every owned field ("f:metadata" -> "f:labels" -> "f:x") is in want. Items of lists count as in it: covers compares lists as a whole.
func within(owned map[string]any, want any) bool {
	w, _ := want.(map[string]any)
	for k, below := range owned {
		name, isField := strings.CutPrefix(k, "f:")
		if !isField {
			continue
		}
		v, has := w[name]
		if !has {
			return false
		}
		if b, ok := below.(map[string]any); ok && len(b) > 0 && !within(b, v) {
			return false
		}
	}
	return true
}

// appliedAt is when lab last changed an object, by its API server's clock; zero when it never did.
func appliedAt(o *unstructured.Unstructured) time.Time {
	for _, e := range o.GetManagedFields() {
		if e.Manager == fieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Time != nil {
			return e.Time.Time
		}
	}
	return time.Time{}
}

// ownedKeys returns the keys of metadata.labels or metadata.annotations that lab set.
func ownedKeys(o *unstructured.Unstructured, field string) map[string]bool {
	keys := map[string]bool{}
	for _, e := range o.GetManagedFields() {
		if e.Manager != fieldManager || e.FieldsV1 == nil {
			continue
		}
		var owned struct {
			Metadata map[string]map[string]json.RawMessage `json:"f:metadata"`
		}
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &owned) != nil {
			continue
		}
		for k := range owned.Metadata["f:"+field] {
			if name, ok := strings.CutPrefix(k, "f:"); ok {
				keys[name] = true
			}
		}
	}
	return keys
}
