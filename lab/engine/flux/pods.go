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
	client, names := f.workloads(ctx, v, k)
	return workload.Describe(ctx, client, names)
}

// workloads returns the workloads of an application by namespace, and a client of its cluster; none on failure.
func (f *Flux) workloads(ctx context.Context, v reconciliation.View, k kustomizev1.Kustomization) (kubernetes.Interface, map[string][]string) {
	if f.reach == nil {
		return nil, nil
	}
	cfg, err := f.reach(v.ClusterOf(k))
	if err != nil || cfg == nil {
		return nil, nil
	}
	c, err := f.connect(cfg)
	if err != nil {
		return nil, nil
	}
	names := map[string][]string{}
	for _, r := range v.ReleasesOf(k) {
		in := cmp.Or(r.Spec.TargetNamespace, r.Namespace)
		names[in] = append(names[in], workloadsOf(ctx, c.Typed, in, fromRelease+"="+r.Name+","+fromReleaseNamespace+"="+r.Namespace)...)
	}
	for in, applied := range reconciliation.Workloads(k) {
		names[in] = append(names[in], applied...)
	}
	return c.Typed, names
}

// loop returns a container of pending applications that keeps failing, or nil.
func (s snapshots) loop(ctx context.Context, left []reconciliation.Pending, loops *workload.Loops) *workload.Loop {
	for _, p := range left {
		k, one, there := s.app(p.Application)
		if !there || p.Health == reconciliation.Healthy {
			continue
		}
		client, names := one.flux.workloads(ctx, one.View, k)
		if found := loops.Find(ctx, client, names); found != nil {
			return found
		}
	}
	return nil
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
