package scenariotest

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func definitionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
}

// failure is the reason why an engine could not apply an application. Its reconciliation continues, with retries.
type failure struct{ message string }

func (f failure) Error() string { return f.message }

// staged returns objects in the order in which both engines apply them: definitions and namespaces first.
func staged(objects []object) []object {
	first := func(o object) int {
		return map[bool]int{true: 0, false: 1}[o.subject.Kind == "CustomResourceDefinition" || o.subject.Kind == "Namespace"]
	}
	return slices.SortedStableFunc(slices.Values(objects), func(a, b object) int { return cmp.Compare(first(a), first(b)) })
}

// undefined returns the first object of a kind that its cluster does not serve, once the definitions among the objects exist.
func (c *Clusters) undefined(cluster string, objects []object) (object, bool) {
	defined := func(kind string) bool {
		return slices.ContainsFunc(c.list(cluster, definitionKind()), func(u unstructured.Unstructured) bool { return defines(u.Object, kind) }) ||
			slices.ContainsFunc(objects, func(o object) bool { return defines(o.content, kind) })
	}
	for _, o := range objects {
		if gv, err := schema.ParseGroupVersion(o.subject.APIVersion); err == nil && gv.Group == customGroup && !defined(o.subject.Kind) {
			return o, true
		}
	}
	return object{}, false
}

// serves reports whether a cluster serves a resource.
func (c *Clusters) serves(cluster string, r schema.GroupVersionResource) bool {
	return r.Group != customGroup || slices.ContainsFunc(c.list(cluster, definitionKind()), func(u unstructured.Unstructured) bool {
		group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
		return group == customGroup
	})
}

func defines(definition map[string]any, kind string) bool {
	name, _, _ := unstructured.NestedString(definition, "spec", "names", "kind")
	return definition["kind"] == "CustomResourceDefinition" && name == kind
}

// missingKind is what Argo CD says of an object without a definition, and noMatches what Flux says.
func missingKind(o object) failure {
	return failure{fmt.Sprintf("The Kubernetes API could not find %s/%s for requested resource %s/%s. Make sure the %q CRD is installed on the destination cluster.",
		customGroup, o.subject.Kind, o.subject.Namespace, o.subject.Name, o.subject.Kind)}
}

func noMatches(o object) failure {
	return failure{fmt.Sprintf("%s/%s/%s dry-run failed: no matches for kind %q in version %q", o.subject.Kind, o.subject.Namespace, o.subject.Name, o.subject.Kind, o.subject.APIVersion)}
}
