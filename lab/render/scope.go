package render

import (
	"sigs.k8s.io/kustomize/kyaml/openapi"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"homelab/lab/strict"
)

// Namespaced reports whether objects of a kind are in namespaces, if that is known.
func Namespaced(o Document) (namespaced, known bool) {
	return openapi.IsNamespaceScoped(kyaml.TypeMeta{APIVersion: strict.Text(o.Node, "apiVersion"), Kind: strict.Text(o.Node, "kind")})
}
