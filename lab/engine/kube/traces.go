package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"homelab/lab"
)

const (
	eraseRounds = 5                      // a controller copies metadata from an object to those that it creates
	eraseEvery  = 500 * time.Millisecond // between two rounds
	erasePage   = 200                    // objects per list request
)

// Traces is the metadata that an engine leaves on applied objects.
type Traces struct {
	Labels, Annotations []string
	Shared              []string // annotations that only count as the engine's on an object with other traces, and on objects owned by one
	Managers            []string // field managers
}

// Erase removes the traces from all objects of a cluster and returns the number of objects that had any.
func (t Traces) Erase(ctx context.Context, c Clients) (int, error) {
	erased := map[types.UID]bool{}
	for round := 0; ; round++ {
		n, err := t.erase(ctx, c, erased)
		if err != nil || n == 0 {
			return len(erased), err
		}
		if round == eraseRounds {
			return len(erased), &lab.Error{
				Exit: lab.ExitFailed, Code: "traces", Message: fmt.Sprintf("the removed metadata keeps coming back on %d objects: %v, %v", n, t.Labels, t.Annotations),
				Cure: "stop its writer, such as another engine, and run lab up again",
			}
		}
		if err := lab.Sleep(ctx, eraseEvery); err != nil {
			return len(erased), err
		}
	}
}

// erase is one round. Objects that had traces are added to erased.
func (t Traces) erase(ctx context.Context, c Clients, erased map[types.UID]bool) (int, error) {
	kinds, err := resources(c, "list", "patch")
	if err != nil {
		return 0, err
	}
	n := 0
	for _, k := range kinds {
		page := ""
		for {
			list, err := c.Dynamic.Resource(k).List(ctx, metav1.ListOptions{Limit: erasePage, Continue: page})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				break
			}
			if err != nil {
				return n, fmt.Errorf("%s: %w", k.Resource, err)
			}
			for i := range list.Items {
				o := &list.Items[i]
				owned := slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return erased[r.UID] })
				had, err := t.eraseFrom(ctx, c, k, o, owned)
				if err != nil {
					return n, err
				}
				if had {
					erased[o.GetUID()] = true
					n++
				}
			}
			if page = list.GetContinue(); page == "" {
				break
			}
		}
	}
	return n, nil
}

// eraseFrom removes the traces from one object, and reports whether it had any.
func (t Traces) eraseFrom(ctx context.Context, c Clients, k schema.GroupVersionResource, o *unstructured.Unstructured, owned bool) (bool, error) {
	patch := t.patch(o, owned)
	if patch == nil {
		return false, nil
	}
	b, err := json.Marshal(map[string]any{"metadata": patch})
	if err != nil {
		return true, err
	}
	objects, what := Place(c.Dynamic, k, o)
	_, err = objects.Patch(ctx, o.GetName(), types.MergePatchType, b, metav1.PatchOptions{FieldManager: FieldManager})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // retried in the next round
		return true, nil
	}
	return true, Wrap(what, err)
}

// patch returns a patch that removes the traces from an object's metadata, or nil. owned means that the owner had traces.
func (t Traces) patch(o *unstructured.Unstructured, owned bool) map[string]any {
	gone := func(have map[string]string, keys []string) map[string]any {
		out := map[string]any{}
		for _, k := range keys {
			if _, has := have[k]; has {
				out[k] = nil
			}
		}
		return out
	}
	shared := gone(o.GetAnnotations(), t.Shared)
	labels, annotations := gone(o.GetLabels(), t.Labels), gone(o.GetAnnotations(), t.Annotations)
	theirs := func(e metav1.ManagedFieldsEntry) bool { return slices.Contains(t.Managers, e.Manager) }
	managed := slices.DeleteFunc(slices.Clone(o.GetManagedFields()), theirs)
	managers := len(managed) < len(o.GetManagedFields())
	if len(labels)+len(annotations) == 0 && !managers && (!owned || len(shared) == 0) {
		return nil
	}
	maps.Copy(annotations, shared)
	patch := map[string]any{"resourceVersion": o.GetResourceVersion()}
	if len(labels) > 0 {
		patch["labels"] = labels
	}
	if len(annotations) > 0 {
		patch["annotations"] = annotations
	}
	if managers {
		if len(managed) == 0 {
			managed = []metav1.ManagedFieldsEntry{{}} // an empty list would be ignored
		}
		patch["managedFields"] = managed
	}
	return patch
}
