package flux

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/engine/kube"
	"homelab/lab/flux"
)

// ensureClusterNamespaces creates the namespaces of unregistered clusters of the estate: a root with objects for a missing namespace applies nothing at all. It reports whether
// any was missing.
func (f *Flux) ensureClusterNamespaces(ctx context.Context, clusters []string) (bool, error) {
	made := false
	for _, c := range clusters {
		ns := kube.Namespace{Name: flux.NamespaceOf(c), Labels: f.labels(registration)}
		_, err := f.hub.Dynamic.Resource(kube.Namespaces).Get(ctx, ns.Name, metav1.GetOptions{})
		if err == nil {
			continue
		}
		if !apierrors.IsNotFound(err) {
			return made, kube.Wrap("namespace "+ns.Name, err)
		}
		if err := ns.Ensure(ctx, f.hub.Dynamic, silent); err != nil {
			return made, err
		}
		made = true
	}
	return made, nil
}

// removeClusterNamespaces deletes the namespaces that ensureClusterNamespaces created for clusters that were never registered and have left the estate. It reports whether it deleted any.
func (f *Flux) removeClusterNamespaces(ctx context.Context, clusters []string) (bool, error) {
	if len(clusters) == 0 {
		return false, nil
	}
	list, err := f.hub.Dynamic.Resource(kube.Namespaces).List(ctx, metav1.ListOptions{LabelSelector: lab.LabelName + "=" + f.lab + "," + lab.LabelPart + "=" + registration})
	if err != nil {
		return false, fmt.Errorf("namespaces: %w", err)
	}
	cleared := false
	for _, ns := range list.Items {
		cluster, ok := flux.ClusterOf(ns.GetName())
		if !ok || slices.Contains(clusters, cluster) || ns.GetDeletionTimestamp() != nil {
			continue
		}
		used, err := f.inUse(ctx, ns.GetName())
		if err == nil && !used {
			err = f.delete(ctx, kube.Namespaces, "", ns.GetName())
			cleared = true
		}
		if err != nil {
			return cleared, err
		}
	}
	return cleared, nil
}

// inUse reports whether a cluster's namespace contains its registration or objects to apply.
func (f *Flux) inUse(ctx context.Context, namespace string) (bool, error) {
	for _, r := range []schema.GroupVersionResource{kube.Secrets, kustomizations, helmReleases} {
		list, err := f.hub.Dynamic.Resource(r).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", r.Resource, err)
		}
		if len(list.Items) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// keep protects an object of the root from Flux: a repository with bootstrap's layout contains it, too, with upstream's address.
func (f *Flux) keep(o *unstructured.Unstructured) {
	annotations := map[string]string{}
	maps.Copy(annotations, o.GetAnnotations())
	annotations["kustomize.toolkit.fluxcd.io/reconcile"] = "disabled"
	o.SetAnnotations(annotations)
}
