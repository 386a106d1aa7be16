package needs

import (
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"homelab/lab/render"
	"homelab/lab/strict"
)

// furtherGroups are Kubernetes' groups that client-go's scheme lacks, with their version.
var furtherGroups = map[string]string{"apiextensions.k8s.io": "v1", "apiregistration.k8s.io": "v1"}

// stable matches the versions that Kubernetes serves by default: https://kubernetes.io/docs/reference/using-api/deprecation-policy/
var stable = regexp.MustCompile(`^v[0-9]+$`)

// Served reports whether Kubernetes serves a kind by default, and whether its group is one of Kubernetes'.
func Served(gvk schema.GroupVersionKind) (served, own bool) {
	if version, further := furtherGroups[gvk.Group]; further {
		return version == gvk.Version, true
	}
	return stable.MatchString(gvk.Version) && scheme.Scheme.Recognizes(gvk), scheme.Scheme.IsGroupRegistered(gvk.Group)
}

// Kinds returns the kinds of objects that Kubernetes does not serve, "Certificate of cert-manager.io/v1", and those that their CustomResourceDefinitions define.
func Kinds(objects []render.Document) (foreign, defined []string) {
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
			if served, _ := Served(schema.FromAPIVersionAndKind(version, kind)); !served {
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
