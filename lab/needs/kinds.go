package needs

import (
	"regexp"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"homelab/lab/render"
	"homelab/lab/strict"
)

// furtherGroups are Kubernetes' groups that client-go's scheme lacks, with their version.
var furtherGroups = map[string]string{"apiextensions.k8s.io": "v1", "apiregistration.k8s.io": "v1"}

// stable matches the versions that Kubernetes serves by default: https://kubernetes.io/docs/reference/using-api/deprecation-policy/
var stable = regexp.MustCompile(`^v[0-9]+$`)

// Serves reports whether Kubernetes serves a kind by default, and whether its group is one of Kubernetes'.
func Serves(gvk schema.GroupVersionKind) (served, own bool) {
	if version, further := furtherGroups[gvk.Group]; further {
		return version == gvk.Version, true
	}
	return stable.MatchString(gvk.Version) && scheme.Scheme.Recognizes(gvk), scheme.Scheme.IsGroupRegistered(gvk.Group)
}

// Kinds returns the kinds of objects that Kubernetes does not serve, "Certificate of cert-manager.io/v1", and those that their CustomResourceDefinitions define.
func Kinds(objects []render.Document) (foreign, defined []string) {
	for _, o := range objects {
		for _, n := range strict.Items(o.Node) {
			for _, need := range served(n) {
				foreign = appendNew(foreign, need.What)
			}
			if strict.Text(n, "kind") == "CustomResourceDefinition" {
				defined = append(defined, defines(n)...)
			}
		}
	}
	return foreign, defined
}
