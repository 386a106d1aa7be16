package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Shape is the deployment shape of Flux.
type Shape string

// The shapes.
const (
	ShapeHub        Shape = "hub"        // on the hub, managing every cluster
	ShapeStandalone Shape = "standalone" // on every cluster, managing itself
)

// Optional controllers of Flux.
const (
	FluxImageReflector  = "image-reflector-controller"  // scans registries
	FluxImageAutomation = "image-automation-controller" // commits image updates
	FluxSourceWatcher   = "source-watcher"              // splits and composes sources
)

// FluxNamespace is the namespace of Flux and the name of its root Kustomization, both as in `flux bootstrap`.
const FluxNamespace = "flux-system"

// Objects that lab creates in a cluster's namespace where its Flux runs.
const (
	FluxKubeconfig = "cluster-kubeconfig" // Secret, key "value"
	FluxVariables  = "cluster-vars"       // ConfigMap of the bridge
)

// FluxDigest is a variable that changes whenever any other variable of the cluster changes.
const FluxDigest = "vars_digest"

// FluxPrune is the annotation that, set to "disabled", keeps an object from being pruned.
const FluxPrune = "kustomize.toolkit.fluxcd.io/prune"

// FluxNamespaceOf returns the namespace for a cluster where its Flux runs.
func FluxNamespaceOf(cluster string) string { return "cluster-" + cluster }

// FluxClusterOf is the inverse of FluxNamespaceOf. ok is false for other namespaces.
func FluxClusterOf(namespace string) (cluster string, ok bool) {
	return strings.CutPrefix(namespace, "cluster-")
}

// FluxApplicationOf returns the cluster that a Kustomization in the Flux of cluster home is for, and the name of its application there. A Kustomization
// outside the clusters' namespaces belongs to home; its application name is prefixed with the namespace unless that is FluxNamespace.
func FluxApplicationOf(home, namespace, name string) (cluster, application string) {
	if cluster, ok := FluxClusterOf(namespace); ok {
		return cluster, name
	}
	if namespace != FluxNamespace && namespace != "" {
		name = namespace + "-" + name
	}
	return home, name
}

// FluxRootFile returns the path, within an estate, of the root manifest of a cluster's Flux, as in `flux bootstrap`.
func FluxRootFile(cluster string) string {
	return path.Join(ClustersDir, cluster, FluxNamespace, "gotk-sync.yaml")
}

// VariableName returns a key of the bridge as a valid name for Flux's substitution: other characters than letters, digits and underscores become
// underscores, and a leading digit is prefixed with one.
func VariableName(key string) string {
	if key != "" && key[0] >= '0' && key[0] <= '9' {
		key = "_" + key
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, key)
}

// Variables returns labels and annotations as variables for Flux's substitution, including FluxDigest. Annotations take precedence.
func Variables(labels, annotations map[string]string) map[string]string {
	vars := map[string]string{}
	for _, m := range []map[string]string{labels, annotations} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			vars[VariableName(k)] = m[k]
		}
	}
	delete(vars, FluxDigest)
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", vars)) // sorted by key
	vars[FluxDigest] = hex.EncodeToString(sum[:5])
	return vars
}
