package argocd

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"homelab/lab"
	"homelab/lab/engine/kube"
)

// silent discards progress.
func silent(string) {}

// ensureNamespace creates a namespace if absent. If Argo CD's own is terminating, it removes the finalizers that no controller handles any more; the synced
// objects stay in the clusters and are adopted by the next Argo CD.
func (a *ArgoCD) ensureNamespace(ctx context.Context, in dynamic.Interface, name string, p lab.Progress) error {
	n := kube.Namespace{Name: name, Labels: a.labels("engine")}
	if name == a.namespace {
		n.Leaving = func(ctx context.Context) error {
			for _, k := range rootKinds {
				if err := a.dropTerminating(ctx, k.resource); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return n.Ensure(ctx, in, p)
}

// dropTerminating removes the finalizers of a kind's terminating objects.
func (a *ArgoCD) dropTerminating(ctx context.Context, r schema.GroupVersionResource) error {
	list, err := a.hub.Dynamic.Resource(r).Namespace(a.namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil // the kind is not installed
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.Resource, err)
	}
	for _, o := range list.Items {
		if o.GetDeletionTimestamp() == nil || len(o.GetFinalizers()) == 0 {
			continue
		}
		if err := a.dropFinalizers(ctx, r, o.GetName()); err != nil {
			return err
		}
	}
	return nil
}

// dropFinalizers removes an object's finalizers. A missing object is not an error.
func (a *ArgoCD) dropFinalizers(ctx context.Context, r schema.GroupVersionResource, name string) error {
	_, err := a.hub.Dynamic.Resource(r).Namespace(a.namespace).Patch(ctx, name, types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{FieldManager: nudgeManager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return kube.Wrap(r.Resource+" "+name, err)
}
