// Package kube contains the Kubernetes operations shared by engines: server-side apply without no-op writes, namespaces, Secrets, and an engine's access.
package kube

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

// FieldManager owns the fields that lab applies.
const FieldManager = "lab"

// Apply server-side applies an object and returns it before, nil if absent, and after. An unchanged object is only read: its resourceVersion stays, and no
// admission webhook is called.
func Apply(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, want *unstructured.Unstructured) (before, after *unstructured.Unstructured, err error) {
	before, same, err := Compare(ctx, client, resource, want)
	if err != nil || same {
		return before, before, err
	}
	objects, name := Place(client, resource, want)
	after, err = objects.Apply(ctx, want.GetName(), want, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return before, after, nil
}

// Compare returns the present object, nil if absent, and whether it is as wanted.
func Compare(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, want *unstructured.Unstructured) (have *unstructured.Unstructured, same bool, err error) {
	objects, name := Place(client, resource, want)
	have, err = objects.Get(ctx, want.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("%s: %w", name, err)
	}
	return have, covers(have.Object, want.Object) && !leftover(have, want), nil
}

// Place returns the client of an object, and its name for messages.
func Place(client dynamic.Interface, resource schema.GroupVersionResource, o *unstructured.Unstructured) (dynamic.ResourceInterface, string) {
	name := strings.ToLower(o.GetKind()) + " " + o.GetName()
	if ns := o.GetNamespace(); ns != "" {
		return client.Resource(resource).Namespace(ns), name
	}
	return client.Resource(resource), name
}

// Changed reports whether an apply changed anything but server-managed fields.
func Changed(before, after *unstructured.Unstructured) bool {
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
		if e.Manager != FieldManager || e.Operation != metav1.ManagedFieldsOperationApply || e.FieldsV1 == nil {
			continue
		}
		var owned map[string]any
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &owned) != nil {
			return true
		}
		return !within(owned, want.Object)
	}
	// Never applied by lab, so it owns no fields yet; an apply makes it the owner.
	return true
}

// within reports whether want has every owned field ("f:metadata" -> "f:labels" -> "f:x"). List items always count as present, since covers compares lists as a
// whole.
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

// AppliedAt returns when lab last changed an object, by its API server's clock; zero if never.
func AppliedAt(o *unstructured.Unstructured) time.Time {
	for _, e := range o.GetManagedFields() {
		if e.Manager == FieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Time != nil {
			return e.Time.Time
		}
	}
	return time.Time{}
}

// ownedKeys returns the keys of metadata.labels or metadata.annotations that lab owns.
func ownedKeys(o *unstructured.Unstructured, field string) map[string]bool {
	keys := map[string]bool{}
	for _, e := range o.GetManagedFields() {
		if e.Manager != FieldManager || e.FieldsV1 == nil {
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

// Own returns the labels or annotations (field) of an object that lab set.
func Own(o *unstructured.Unstructured, field string, all map[string]string) map[string]string {
	mine := ownedKeys(o, field)
	out := map[string]string{}
	for k, v := range all {
		if mine[k] {
			out[k] = v
		}
	}
	return out
}

// Change returns lab's own labels or annotations (field) of an object after a change, in which nil removes one. Changing a foreign one is an error.
func Change(o *unstructured.Unstructured, field string, all map[string]string, change map[string]*string) (map[string]string, error) {
	mine := Own(o, field, all)
	for k, v := range change {
		if _, has := all[k]; has {
			if _, own := mine[k]; !own {
				return nil, fmt.Errorf("%s %s was set by someone else", field, k)
			}
		}
		if v == nil {
			delete(mine, k)
		} else {
			mine[k] = *v
		}
	}
	return mine, nil
}

// Wrap wraps an error with its subject; nil stays nil.
func Wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
