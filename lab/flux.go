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

// Shape is where Flux runs.
type Shape string

// The shapes.
const (
	ShapeHub        Shape = "hub"        // on the hub, for every cluster
	ShapeStandalone Shape = "standalone" // on every cluster, for itself
)

// Controllers of Flux that only some estates have a use for.
const (
	FluxImageReflector  = "image-reflector-controller"  // scans registries
	FluxImageAutomation = "image-automation-controller" // commits what it found
	FluxSourceWatcher   = "source-watcher"              // splits and composes sources
)

// FluxNamespace is Flux's own where it runs, and the name of what it starts from: both as `flux bootstrap` has them.
const FluxNamespace = "flux-system"

// What lab keeps in a cluster's namespace where its Flux runs, by the names that an estate's manifests have.
const (
	FluxKubeconfig = "cluster-kubeconfig" // Secret, key "value"
	FluxVariables  = "cluster-vars"       // ConfigMap of the bridge
)

// FluxDigest is the variable that is another as soon as any of a cluster's is.
const FluxDigest = "vars_digest"

// FluxPrune is the annotation that keeps an object from being pruned, with the value "disabled".
const FluxPrune = "kustomize.toolkit.fluxcd.io/prune"

// FluxNamespaceOf is the namespace of a cluster where its Flux runs.
func FluxNamespaceOf(cluster string) string { return "cluster-" + cluster }

// FluxClusterOf is the inverse of FluxNamespaceOf; false for other namespaces.
func FluxClusterOf(namespace string) (cluster string, ok bool) {
	return strings.CutPrefix(namespace, "cluster-")
}

// FluxApplicationOf returns the cluster that a Kustomization is for, where the Flux of cluster home has it, and the application's name among that cluster's. A
// Kustomization outside of the clusters' namespaces is home's, under the name that it has there; outside of Flux's own, under that of its namespace, too.
func FluxApplicationOf(home, namespace, name string) (cluster, application string) {
	if cluster, ok := FluxClusterOf(namespace); ok {
		return cluster, name
	}
	if namespace != FluxNamespace && namespace != "" {
		name = namespace + "-" + name
	}
	return home, name
}

// FluxRootFile is the path of what a cluster's Flux starts from within an estate, as `flux bootstrap` has it.
func FluxRootFile(cluster string) string {
	return path.Join(ClustersDir, cluster, FluxNamespace, "gotk-sync.yaml")
}

// VariableName is a key of the bridge in the spelling that Flux's substitution allows: what is no letter, digit or underscore becomes one, and so begins what would
// begin with a digit.
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

// Variables are labels and annotations for Flux's substitution, and FluxDigest. Annotations win.
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
