package verb

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"homelab/lab/scenario"
)

// resource returns the client of an object's kind.
func resource(c *scenario.Call, s scenario.Subject) (dynamic.ResourceInterface, error) {
	client, err := c.Clusters.Client(s.Cluster)
	if err != nil {
		return nil, err
	}
	return client.Resource(s)
}

// get returns nil if the object does not exist.
func get(ctx context.Context, r dynamic.ResourceInterface, name string) (*unstructured.Unstructured, error) {
	o, err := r.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, err
}

// edit gets, changes and updates an object, and retries on conflicts. change reports whether an update is needed. It
// returns the updated object, or nil if it does not exist.
func edit(ctx context.Context, r dynamic.ResourceInterface, name string, change func(*unstructured.Unstructured) (bool, error)) (*unstructured.Unstructured, error) {
	var after *unstructured.Unstructured
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		o, err := get(ctx, r, name)
		if err != nil || o == nil {
			after = nil
			return err
		}
		write, err := change(o)
		if err != nil || !write {
			after = o
			return err
		}
		after, err = r.Update(ctx, o, metav1.UpdateOptions{FieldManager: "kubectl-edit"})
		return err
	})
	return after, err
}

// bare strips what the API server has set, so that the object can be recreated.
func bare(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(o.Object, "status")
	return o
}

// putBack restores an object: it is recreated if missing, else overwritten.
func putBack(ctx context.Context, r dynamic.ResourceInterface, was *unstructured.Unstructured) error {
	now, err := edit(ctx, r, was.GetName(), func(o *unstructured.Unstructured) (bool, error) {
		version, uid := o.GetResourceVersion(), o.GetUID()
		o.Object = bare(was).Object
		o.SetResourceVersion(version)
		o.SetUID(uid)
		return true, nil
	})
	if err != nil || now != nil {
		return err
	}
	_, err = r.Create(ctx, bare(was), metav1.CreateOptions{FieldManager: "kubectl-create"})
	if apierrors.IsAlreadyExists(err) { // recreated by the engine meanwhile
		return nil
	}
	return err
}
