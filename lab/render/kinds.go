package render

import (
	"slices"

	"homelab/lab/strict"
)

// served are the group versions of Kubernetes 1.36 that it serves by default. The others of its groups were removed, or are not enabled.
var served = []string{
	"v1", "admissionregistration.k8s.io/v1", "apiextensions.k8s.io/v1", "apiregistration.k8s.io/v1", "apps/v1", "authentication.k8s.io/v1", "authorization.k8s.io/v1",
	"autoscaling/v1", "autoscaling/v2", "batch/v1", "certificates.k8s.io/v1", "coordination.k8s.io/v1", "discovery.k8s.io/v1", "events.k8s.io/v1",
	"flowcontrol.apiserver.k8s.io/v1", "networking.k8s.io/v1", "node.k8s.io/v1", "policy/v1", "rbac.authorization.k8s.io/v1", "resource.k8s.io/v1", "scheduling.k8s.io/v1",
	"storage.k8s.io/v1",
}

// Kinds returns the kinds of objects that Kubernetes does not serve, "Certificate of cert-manager.io/v1", and those that their CustomResourceDefinitions define.
func Kinds(objects []Document) (foreign, defined []string) {
	add := func(list *[]string, kind string) {
		if !slices.Contains(*list, kind) {
			*list = append(*list, kind)
		}
	}
	for _, o := range objects {
		for _, n := range strict.Items(o.Node) {
			kind, version := strict.Text(n, "kind"), strict.Text(n, "apiVersion")
			if kind == "" || version == "" {
				continue
			}
			if !slices.Contains(served, version) {
				add(&foreign, kind+" of "+version)
			}
			versions := strict.Get(n, "spec", "versions")
			if kind != "CustomResourceDefinition" || versions == nil {
				continue
			}
			for _, v := range versions.Content {
				add(&defined, strict.Text(n, "spec", "names", "kind")+" of "+strict.Text(n, "spec", "group")+"/"+strict.Text(v, "name"))
			}
		}
	}
	return foreign, defined
}

// ofEngine are the kinds that only a cluster with Argo CD has.
var ofEngine = []string{"Application of argoproj.io/v1alpha1", "ApplicationSet of argoproj.io/v1alpha1", "AppProject of argoproj.io/v1alpha1"}

// IsEngines reports whether a kind, as Kinds returns it, is Argo CD's.
func IsEngines(kind string) bool { return slices.Contains(ofEngine, kind) }
