package argocd

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"homelab/lab"
)

// silent discards progress.
func silent(string) {}

// ensureNamespace creates a missing namespace. An existing one is left alone; one that is terminating is awaited first.
func (a *ArgoCD) ensureNamespace(ctx context.Context, in dynamic.Interface, name string, p lab.Progress) error {
	seen, err := a.awaitNamespace(ctx, in, name, p)
	if err != nil || seen == present {
		return err
	}
	ns := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "labels": a.labels("engine")},
	}}
	_, _, err = apply(ctx, in, namespaces, ns)
	return err
}

// presence is the state of a namespace.
type presence int

const (
	absent presence = iota
	present
	terminating
)

func observeNamespace(ctx context.Context, in dynamic.Interface, name string) (presence, error) {
	ns, err := in.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return absent, nil
	case err != nil:
		return absent, fmt.Errorf("namespace %s: %w", name, err)
	case ns.GetDeletionTimestamp() != nil:
		return terminating, nil
	}
	return present, nil
}

// awaitNamespace returns the state of a namespace, waiting while it is terminating. In Argo CD's own namespace no controller is left to process the finalizers
// of Applications and projects, so they are removed; deployed objects stay in the clusters, to be adopted by the next Argo CD.
func (a *ArgoCD) awaitNamespace(ctx context.Context, in dynamic.Interface, name string, p lab.Progress) (presence, error) {
	within, cancel := context.WithTimeout(ctx, removeWithin)
	defer cancel()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		seen, err := observeNamespace(within, in, name)
		if err != nil || seen != terminating {
			return seen, err
		}
		p("waiting for namespace " + name + " to go, which somebody removed")
		if name == a.namespace {
			for _, k := range rootKinds {
				if err := a.removeFinalizers(within, k.resource); err != nil && within.Err() == nil {
					return seen, err
				}
			}
		}
		select {
		case <-ctx.Done():
			return seen, ctx.Err()
		case <-within.Done():
			return seen, &lab.Error{
				Exit: lab.ExitTimeout, Code: "namespace_stuck", Message: fmt.Sprintf("somebody removed namespace %s, and it has not gone after %s", name, duration(removeWithin)),
				Cure: "its status tells what is in the way: kubectl get namespace " + name + " -o yaml",
			}
		case <-tick.C:
		}
	}
}

// removeFinalizers removes the finalizers from terminating Argo CD objects of a kind.
func (a *ArgoCD) removeFinalizers(ctx context.Context, r schema.GroupVersionResource) error {
	list, err := a.hub.dynamic.Resource(r).Namespace(a.namespace).List(ctx, metav1.ListOptions{})
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
	_, err := a.hub.dynamic.Resource(r).Namespace(a.namespace).Patch(ctx, name, types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{FieldManager: nudgeManager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return wrap(r.Resource+" "+name, err)
}
