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

// apply server-side applies an object and returns its state before (nil if absent) and after. An up-to-date object is only read, which keeps its
// resourceVersion and calls no admission webhooks.
func apply(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, want *unstructured.Unstructured) (before, after *unstructured.Unstructured, err error) {
	before, same, err := compare(ctx, client, resource, want)
	if err != nil || same {
		return before, before, err
	}
	objects, name := clientFor(client, resource, want)
	after, err = objects.Apply(ctx, want.GetName(), want, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return before, after, nil
}

// compare returns the live object, nil if absent, and whether it matches want.
func compare(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, want *unstructured.Unstructured) (have *unstructured.Unstructured, same bool, err error) {
	objects, name := clientFor(client, resource, want)
	have, err = objects.Get(ctx, want.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("%s: %w", name, err)
	}
	return have, covers(have.Object, want.Object) && !leftover(have, want), nil
}

// clientFor returns the client and the message title of an object.
func clientFor(client dynamic.Interface, resource schema.GroupVersionResource, o *unstructured.Unstructured) (dynamic.ResourceInterface, string) {
	name := strings.ToLower(o.GetKind()) + " " + o.GetName()
	if ns := o.GetNamespace(); ns != "" {
		return client.Resource(resource).Namespace(ns), name
	}
	return client.Resource(resource), name
}

// changed reports whether an apply changed anything except server-managed fields.
func changed(before, after *unstructured.Unstructured) bool {
	if before == nil {
		return true
	}
	return !reflect.DeepEqual(userFields(before), userFields(after))
}

// userFields returns an object without fields managed by the API server and controllers.
func userFields(o *unstructured.Unstructured) map[string]any {
	out := map[string]any{"labels": o.GetLabels(), "annotations": o.GetAnnotations(), "finalizers": o.GetFinalizers()}
	for k, v := range o.Object {
		if k != "metadata" && k != "status" && k != "operation" {
			out[k] = v
		}
	}
	return out
}

// covers reports whether live has every leaf of want with the same value.
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

// same compares values as JSON, as YAML and JSON decoders differ in their integer types.
func same(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// leftover reports whether lab owns a field of live that want lacks, according to managedFields.
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
	// Never applied by lab, so that it owns no fields yet; an apply makes it the owner.
	return true
}

// within reports whether want has every owned field ("f:metadata" -> "f:labels" -> "f:x"). List items always count as present, since covers compares whole
// lists.
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

// appliedAt returns the time of lab's last change to an object by the API server's clock, or zero.
func appliedAt(o *unstructured.Unstructured) time.Time {
	for _, e := range o.GetManagedFields() {
		if e.Manager == fieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Time != nil {
			return e.Time.Time
		}
	}
	return time.Time{}
}

// ownedKeys returns the keys of metadata.labels or metadata.annotations that lab owns.
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
