package flux

import (
	"cmp"
	"context"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"homelab/lab/engine/flux/reconciliation"
	"homelab/lab/engine/workload"
)

// Labels set by helm-controller on installed objects: their HelmRelease.
const (
	fromRelease          = "helm.toolkit.fluxcd.io/name"
	fromReleaseNamespace = "helm.toolkit.fluxcd.io/namespace"
)

// describePods describes the workloads and pods of an application in its cluster: "deployment podinfo: 0 of 2 ready". It returns nothing on failure.
func (f *Flux) describePods(ctx context.Context, v reconciliation.View, k kustomizev1.Kustomization) []string {
	cluster := v.ClusterOf(k)
	if f.reach == nil {
		return nil
	}
	cfg, err := f.reach(cluster)
	if err != nil || cfg == nil {
		return nil
	}
	c, err := f.connect(cfg)
	if err != nil {
		return nil
	}
	names := map[string][]string{}
	for _, r := range v.ReleasesOf(k) {
		in := cmp.Or(r.Spec.TargetNamespace, r.Namespace)
		names[in] = append(names[in], workloadsOf(ctx, c.Typed, in, fromRelease+"="+r.Name+","+fromReleaseNamespace+"="+r.Namespace)...)
	}
	for in, applied := range reconciliation.Workloads(k) {
		names[in] = append(names[in], applied...)
	}
	return workload.Describe(ctx, c.Typed, names)
}

// workloadsOf returns the names of the workloads matching a selector.
func workloadsOf(ctx context.Context, client kubernetes.Interface, namespace, selector string) []string {
	var names []string
	o := metav1.ListOptions{LabelSelector: selector}
	if list, err := client.AppsV1().Deployments(namespace).List(ctx, o); err == nil {
		for _, d := range list.Items {
			names = append(names, "Deployment/"+d.Name)
		}
	}
	if list, err := client.AppsV1().StatefulSets(namespace).List(ctx, o); err == nil {
		for _, s := range list.Items {
			names = append(names, "StatefulSet/"+s.Name)
		}
	}
	return names
}
