package lab

import (
	"cmp"
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
	FluxKubeconfig = "cluster-kubeconfig" // Secret, key FluxKubeconfigKey
	FluxVariables  = "cluster-vars"       // ConfigMap of the bridge
)

// FluxKubeconfigKey is the key of a kubeconfig in a Secret, unless a reference names another.
const FluxKubeconfigKey = "value"

// FluxDigest is a variable that changes whenever any other variable of the cluster changes.
const FluxDigest = "vars_digest"

// FluxPrune is the annotation that, set to "disabled", keeps an object from being pruned.
const FluxPrune = "kustomize.toolkit.fluxcd.io/prune"

// FluxNamespaceOf returns the namespace for a cluster where its Flux runs.
func FluxNamespaceOf(cluster string) string { return "cluster-" + cluster }

// FluxClusterOf is the inverse of FluxNamespaceOf. ok is false, and cluster empty, for other namespaces.
func FluxClusterOf(namespace string) (cluster string, ok bool) {
	if cluster, ok = strings.CutPrefix(namespace, "cluster-"); !ok {
		return "", false
	}
	return cluster, true
}

// KubeconfigSecret is a Secret on the hub with a spoke's kubeconfig, which Kustomizations and HelmReleases in its namespace refer to.
type KubeconfigSecret struct {
	Namespace, Name string
	Key             string // FluxKubeconfigKey unless the estate sets another
}

// String returns NAMESPACE/NAME.
func (k KubeconfigSecret) String() string { return k.Namespace + "/" + k.Name }

// FluxScope assigns the Kustomizations of one Flux to clusters.
type FluxScope struct {
	Home     string            // cluster of the Kustomizations outside the clusters' namespaces; empty if they belong to none
	Spokes   map[string]string // NAMESPACE/NAME of a KubeconfigSecret -> cluster
	Clusters []string          // with a Home: the others with a namespace; without one, any may have one
	Rooted   bool              // only what descends from the lab's roots is the lab's: the cluster may have other users of Flux
}

// FluxScopeOf returns the scope of a Flux on the hub that manages all clusters.
func FluxScopeOf(hub string, clusters []Cluster) FluxScope {
	s := FluxScope{Spokes: map[string]string{}}
	for _, c := range clusters {
		s.Clusters = append(s.Clusters, c.Name)
		for _, k := range c.KubeconfigSecrets {
			s.Home, s.Spokes[k.String()] = hub, c.Name
		}
	}
	return s
}

// Owner returns the cluster whose namespace it is. Repositories that were not written for lab have others of such names: cluster-config, cluster-autoscaler.
func (s FluxScope) Owner(namespace string) (cluster string, ok bool) {
	cluster, ok = FluxClusterOf(namespace)
	if !ok || s.Home != "" && cluster != s.Home && !slices.Contains(s.Clusters, cluster) {
		return "", false
	}
	return cluster, true
}

// ClusterOf returns the cluster that a Secret in a namespace gives access to, or "".
func (s FluxScope) ClusterOf(namespace, secret string) string {
	if cluster, ok := FluxClusterOf(namespace); ok && secret == FluxKubeconfig {
		return cluster
	}
	return s.Spokes[namespace+"/"+secret]
}

// dedicated returns the cluster of all KubeconfigSecrets in a namespace, or "" if there are several or none.
func (s FluxScope) dedicated(namespace string) string {
	cluster := ""
	for secret, of := range s.Spokes {
		if in, _, _ := strings.Cut(secret, "/"); in == namespace && namespace != FluxNamespace {
			if cluster != "" && cluster != of {
				return ""
			}
			cluster = of
		}
	}
	return cluster
}

// elsewhere reports whether a cluster has KubeconfigSecrets in other namespaces.
func (s FluxScope) elsewhere(cluster, namespace string) bool {
	for secret, of := range s.Spokes {
		if in, _, _ := strings.Cut(secret, "/"); of == cluster && in != namespace {
			return true
		}
	}
	return false
}

// Application returns the cluster that a Kustomization is for, and the name of its application there. secrets are the kubeconfigs of the Kustomization and of its
// HelmReleases, if any. Outside the clusters' namespaces, a Kustomization belongs to the first of: the cluster of a kubeconfig, the only cluster with one in the
// namespace, Home; its application name is prefixed with the namespace unless that is FluxNamespace, or has all kubeconfigs of the cluster and no others.
func (s FluxScope) Application(namespace, name string, secrets ...string) (cluster, application string) {
	dedicated := s.dedicated(namespace)
	cluster, own := s.Owner(namespace)
	if slices.Contains(secrets, FluxKubeconfig) && !own {
		cluster, own = FluxClusterOf(namespace)
	}
	if own && dedicated == "" {
		return cluster, name
	}
	cluster = ""
	for _, secret := range secrets {
		cluster = cmp.Or(cluster, s.ClusterOf(namespace, secret))
	}
	cluster = cmp.Or(cluster, dedicated, s.Home)
	if namespace != FluxNamespace && namespace != "" && (dedicated == "" || dedicated != cluster || s.elsewhere(cluster, namespace)) {
		name = namespace + "-" + name
	}
	return cluster, name
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
