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

// Object is an object of a cluster, whatever the version of its kind.
type Object struct{ Group, Kind, Namespace, Name string }

// ObjectOf returns the Object that o is.
func ObjectOf(o *unstructured.Unstructured) Object {
	return Object{o.GroupVersionKind().Group, o.GetKind(), o.GetNamespace(), o.GetName()}
}

// Origin is whose engine applied an object, according to its metadata.
type Origin int

// Origins
const (
	Untold Origin = iota // its metadata names no engine
	Ours                 // the lab's
	Theirs               // another one, as of a cluster's owner
)

// Traces is the metadata that an engine leaves on applied objects.
type Traces struct {
	Labels, Annotations []string
	Shared              []string // annotations that only count as the engine's on an object with other traces, and on objects owned by one
	Managers            []string // field managers
	// Origin distinguishes the lab's engine from others of its type, which leave the same traces.
	Origin func(*unstructured.Unstructured) Origin
	// Except reports whether a kind, PLURAL.GROUP, is the engine's own; its objects keep their traces.
	Except func(definition string) bool
}

// Erase removes the traces from the objects of a cluster that the lab's engine applied, and from those that controllers derived from them. It returns the number
// of objects that had any. All other objects are left alone, whatever their traces: an attached cluster may have an engine of the same type, and objects whose
// metadata names no engine and which existed before the lab came are its owner's.
func (t Traces) Erase(ctx context.Context, c Clients, applied []Object, attached bool) (int, error) {
	var came metav1.Time
	if attached {
		var err error
		if came, err = attachedAt(ctx, c); err != nil {
			return 0, err
		}
	}
	of := origins{applied: map[Object]bool{}, came: came, owners: map[types.UID][]types.UID{}, own: map[types.UID]bool{}}
	for _, o := range applied {
		of.applied[o] = true
		if o.Group == "" && o.Kind == "Service" { // its Endpoints have no owner
			of.applied[Object{"", "Endpoints", o.Namespace, o.Name}] = true
		}
	}
	erased := map[types.UID]bool{}
	for round := 0; len(of.applied) > 0; round++ {
		n, err := t.erase(ctx, c, of, erased)
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
	return len(erased), nil
}

// attachedAt returns when lab's own namespace was created in a spoke; zero on a hub, which has none.
func attachedAt(ctx context.Context, c Clients) (metav1.Time, error) {
	own, err := c.Dynamic.Resource(Namespaces).Get(ctx, SpokeNamespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return metav1.Time{}, nil
	}
	if err != nil {
		return metav1.Time{}, Wrap("namespace "+SpokeNamespace, err)
	}
	return own.GetCreationTimestamp(), nil
}

// origins finds the objects that the lab's engine applied, and those derived from them.
type origins struct {
	applied map[Object]bool
	came    metav1.Time // of the lab to an attached cluster
	owners  map[types.UID][]types.UID
	own     map[types.UID]bool // applied by the lab's engine
}

// note records an object.
func (f origins) note(o *unstructured.Unstructured, is Origin) {
	if created := o.GetCreationTimestamp(); f.applied[ObjectOf(o)] && (is == Ours || is == Untold && !created.Before(&f.came)) {
		f.own[o.GetUID()] = true
	}
	for _, r := range o.GetOwnerReferences() {
		f.owners[o.GetUID()] = append(f.owners[o.GetUID()], r.UID)
	}
}

// derived reports whether an object is owned by one that the lab's engine applied, over at most so many others.
func (f origins) derived(uid types.UID, over int) bool {
	return slices.ContainsFunc(f.owners[uid], func(owner types.UID) bool { return f.own[owner] || over > 0 && f.derived(owner, over-1) })
}

const ownership = 4 // CronJob, Job, Pod, and one more

// trace is an object with traces.
type trace struct {
	kind   schema.GroupVersionResource
	object *unstructured.Unstructured
}

// erase is one round. Objects that had traces are added to erased.
func (t Traces) erase(ctx context.Context, c Clients, of origins, erased map[types.UID]bool) (int, error) {
	kinds, err := resources(c, "list", "patch")
	if err != nil {
		return 0, err
	}
	var found []trace
	for _, k := range kinds {
		if t.Except != nil && t.Except(k.GroupResource().String()) {
			continue
		}
		err := each(ctx, c, k, func(o *unstructured.Unstructured) {
			is := t.Origin(o)
			of.note(o, is)
			if is != Theirs && t.patch(o, true) != nil {
				found = append(found, trace{k, o})
			}
		})
		if err != nil {
			return 0, err
		}
	}
	n := 0
	for _, f := range found {
		uid := f.object.GetUID()
		derived := of.derived(uid, ownership)
		if !of.own[uid] && !derived {
			continue
		}
		had, err := t.eraseFrom(ctx, c, f.kind, f.object, derived)
		if err != nil {
			return n, err
		}
		if had {
			erased[uid] = true
			n++
		}
	}
	return n, nil
}

// each calls do for the objects of a kind, in pages. A kind that is not served has none.
func each(ctx context.Context, c Clients, k schema.GroupVersionResource, do func(*unstructured.Unstructured)) error {
	for page := ""; k.Version != ""; {
		list, err := c.Dynamic.Resource(k).List(ctx, metav1.ListOptions{Limit: erasePage, Continue: page})
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", k.Resource, err)
		}
		for i := range list.Items {
			do(&list.Items[i])
		}
		if page = list.GetContinue(); page == "" {
			return nil
		}
	}
	return nil
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
