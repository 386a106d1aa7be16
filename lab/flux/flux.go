// Package flux has the names by which an estate and lab refer to Flux, and assigns its Kustomizations to clusters.
package flux

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"homelab/lab"
)

// Optional controllers of Flux.
const (
	ImageReflector  = "image-reflector-controller"  // scans registries
	ImageAutomation = "image-automation-controller" // commits image updates
	SourceWatcher   = "source-watcher"              // splits and composes sources
)

// Apply is the annotation that says whether Flux overwrites what others have written.
const Apply = "kustomize.toolkit.fluxcd.io/ssa"

// Namespace is the namespace of Flux and the name of its root Kustomization, both as in `flux bootstrap`.
const Namespace = "flux-system"

// Objects that lab creates in a cluster's namespace where its Flux runs.
const (
	ClusterKubeconfig = "cluster-kubeconfig" // Secret, key KubeconfigKey
	ClusterVars       = "cluster-vars"       // ConfigMap of the bridge
)

// KubeconfigKey is the key of a kubeconfig in a Secret, unless a reference names another.
const KubeconfigKey = "value"

// VarsDigest is a variable that changes whenever any other variable of the cluster changes.
const VarsDigest = "vars_digest"

// Prune is the annotation that, set to "disabled", keeps an object from being pruned.
const Prune = "kustomize.toolkit.fluxcd.io/prune"

// NamespaceOf returns the namespace for a cluster where its Flux runs.
func NamespaceOf(cluster string) string { return "cluster-" + cluster }

// ClusterOf is the inverse of NamespaceOf. ok is false, and cluster empty, for other namespaces.
func ClusterOf(namespace string) (cluster string, ok bool) {
	if cluster, ok = strings.CutPrefix(namespace, "cluster-"); !ok {
		return "", false
	}
	return cluster, true
}

// Scope assigns the Kustomizations of one Flux to clusters.
type Scope struct {
	Home     string            // cluster of the Kustomizations outside the clusters' namespaces; empty if they belong to none
	Spokes   map[string]string // NAMESPACE/NAME of a lab.KubeconfigSecret -> cluster
	Clusters []string          // with a Home: the others with a namespace; without one, any may have one
	Rooted   bool              // only what descends from the lab's roots is the lab's: the cluster may have other users of Flux
}

// ScopeOf returns the scope of a Flux on the hub that manages all clusters.
func ScopeOf(hub string, clusters []lab.Cluster) Scope {
	s := Scope{Spokes: map[string]string{}}
	for _, c := range clusters {
		s.Clusters = append(s.Clusters, c.Name)
		for _, k := range c.KubeconfigSecrets {
			s.Home, s.Spokes[k.String()] = hub, c.Name
		}
	}
	return s
}

// Owner returns the cluster whose namespace it is. Repositories that were not written for lab have others of such names: cluster-config, cluster-autoscaler.
func (s Scope) Owner(namespace string) (cluster string, ok bool) {
	cluster, ok = ClusterOf(namespace)
	if !ok || s.Home != "" && cluster != s.Home && !slices.Contains(s.Clusters, cluster) {
		return "", false
	}
	return cluster, true
}

// ClusterOf returns the cluster that a Secret in a namespace gives access to, or "".
func (s Scope) ClusterOf(namespace, secret string) string {
	if cluster, ok := ClusterOf(namespace); ok && secret == ClusterKubeconfig {
		return cluster
	}
	return s.Spokes[namespace+"/"+secret]
}

// dedicated returns the cluster of all KubeconfigSecrets in a namespace, or "" if there are several or none.
func (s Scope) dedicated(namespace string) string {
	cluster := ""
	for secret, of := range s.Spokes {
		if in, _, _ := strings.Cut(secret, "/"); in == namespace && namespace != Namespace {
			if cluster != "" && cluster != of {
				return ""
			}
			cluster = of
		}
	}
	return cluster
}

// elsewhere reports whether a cluster has KubeconfigSecrets in other namespaces.
func (s Scope) elsewhere(cluster, namespace string) bool {
	for secret, of := range s.Spokes {
		if in, _, _ := strings.Cut(secret, "/"); of == cluster && in != namespace {
			return true
		}
	}
	return false
}

// Application returns the cluster that a Kustomization is for, and the name of its application there. secrets are the kubeconfigs of the Kustomization and of its
// HelmReleases, if any. Outside the clusters' namespaces, a Kustomization belongs to the first of: the cluster of a kubeconfig, the only cluster with one in the
// namespace, Home; its application name is prefixed with the namespace unless that is Namespace, or has all kubeconfigs of the cluster and no others.
func (s Scope) Application(namespace, name string, secrets ...string) (cluster, application string) {
	dedicated := s.dedicated(namespace)
	cluster, own := s.Owner(namespace)
	if slices.Contains(secrets, ClusterKubeconfig) && !own {
		cluster, own = ClusterOf(namespace)
	}
	if own && dedicated == "" {
		return cluster, name
	}
	cluster = ""
	for _, secret := range secrets {
		cluster = cmp.Or(cluster, s.ClusterOf(namespace, secret))
	}
	cluster = cmp.Or(cluster, dedicated, s.Home)
	if namespace != Namespace && namespace != "" && (dedicated == "" || dedicated != cluster || s.elsewhere(cluster, namespace)) {
		name = namespace + "-" + name
	}
	return cluster, name
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

// Variables returns labels and annotations as variables for Flux's substitution, including VarsDigest. Annotations take precedence.
func Variables(labels, annotations map[string]string) map[string]string {
	vars := map[string]string{}
	for _, m := range []map[string]string{labels, annotations} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			vars[VariableName(k)] = m[k]
		}
	}
	delete(vars, VarsDigest)
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", vars)) // sorted by key
	vars[VarsDigest] = hex.EncodeToString(sum[:5])
	return vars
}
