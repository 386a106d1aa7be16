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

// silent is the progress of what is told of elsewhere.
func silent(string) {}

// ensureNamespace makes a namespace when it is not there. One that is there is left alone, whoever made it; one that is being removed is waited for.
func (a *ArgoCD) ensureNamespace(ctx context.Context, in dynamic.Interface, name string, p lab.Progress) error {
	seen, err := a.settled(ctx, in, name, p)
	if err != nil || seen == there {
		return err
	}
	ns := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "labels": a.labels("engine")},
	}}
	_, _, err = apply(ctx, in, namespaces, ns)
	return err
}

// presence is whether a namespace is there.
type presence int

const (
	absent presence = iota
	there
	leaving // somebody removed it, and it has not gone yet
)

func observeNamespace(ctx context.Context, in dynamic.Interface, name string) (presence, error) {
	ns, err := in.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return absent, nil
	case err != nil:
		return absent, fmt.Errorf("namespace %s: %w", name, err)
	case ns.GetDeletionTimestamp() != nil:
		return leaving, nil
	}
	return there, nil
}

// settled reports whether a namespace is there, once one that somebody removed has gone. In Argo CD's, nobody is left to finish what Applications and projects have
// finalizers for, so those are taken off; what they brought stays in the clusters, and is taken over by the Argo CD to come.
func (a *ArgoCD) settled(ctx context.Context, in dynamic.Interface, name string, p lab.Progress) (presence, error) {
	within, cancel := context.WithTimeout(ctx, removeWithin)
	defer cancel()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		seen, err := observeNamespace(within, in, name)
		if err != nil || seen != leaving {
			return seen, err
		}
		p("waiting for namespace " + name + " to go, which somebody removed")
		if name == a.namespace {
			for _, k := range rootKinds {
				if err := a.letGo(within, k.resource); err != nil && within.Err() == nil {
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

// letGo takes the finalizers off those of Argo CD's objects of a kind that are being removed.
func (a *ArgoCD) letGo(ctx context.Context, r schema.GroupVersionResource) error {
	list, err := a.hub.dynamic.Resource(r).Namespace(a.namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil // not even the kind is there
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

// dropFinalizers lets an object of Argo CD's go without what its finalizers would have done; what is gone already is no error.
func (a *ArgoCD) dropFinalizers(ctx context.Context, r schema.GroupVersionResource, name string) error {
	_, err := a.hub.dynamic.Resource(r).Namespace(a.namespace).Patch(ctx, name, types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{FieldManager: nudgeManager})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return wrap(r.Resource+" "+name, err)
}
