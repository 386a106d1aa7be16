package needs

import (
	_ "embed" // of the table
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"homelab/lab/argo"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// Engine is an engine's assessment of the objects that it has applied.
type Engine struct {
	stops       map[string]string                // by kind, the field of its spec with which an object never becomes ready
	exempts     string                           // annotation of objects that are not assessed; empty for none
	controllers map[string]map[string]argo.Minor // custom resources that are ready only once their controller sets their status, by group and kind, with the minor since which
	checked     []string                         // kinds without which a unit is not ready; nil for all
	minor       argo.Minor
	unused      bool // a volume that no pod has used yet is not ready
	validates   bool // unknown fields are rejected, and what is too large for kubectl's annotation
}

// ArgoCD returns the assessment of a minor of Argo CD with lab's settings, zero being the default: https://argo-cd.readthedocs.io/en/stable/operator-manual/health/
func ArgoCD(minor argo.Minor) Engine {
	e := Engine{stops: map[string]string{"Deployment": "paused", "Job": "suspend"}, exempts: argo.IgnoreHealth, controllers: customChecks(), minor: minor, validates: true}
	if !minor.Has(4) {
		e.checked = checked
	}
	return e
}

// Flux returns that of Flux, for which a suspended Job is ready, and a custom resource without a status: https://github.com/fluxcd/cli-utils/tree/main/pkg/kstatus
func Flux() Engine { return Engine{stops: map[string]string{"Deployment": "paused"}, unused: true} }

// halted is what an object with such a field is.
var halted = map[string]string{"paused": "paused", "suspend": "suspended"}

// checked are the kinds without which Argo CD before 3.4 does not consider an Application healthy: those of GetHealthCheckFunc of gitops-engine, and any with an override in
// its configuration, as ConfigMap has in upstream's (ignoreResourceUpdates).
var checked = []string{
	"APIService", "ApplicationSet", "ConfigMap", "DaemonSet", "Deployment", "HorizontalPodAutoscaler", "Ingress", "Job", "PersistentVolumeClaim", "Pod", "ReplicaSet", "Rollout", "Service", "StatefulSet", "Workflow",
}

//go:embed healthchecks.txt
var healthChecks string

// customChecks returns, by group, the kinds of custom resources that are healthy once their controller sets their status, with the minor of Argo CD since which.
var customChecks = sync.OnceValue(func() map[string]map[string]argo.Minor {
	kinds := map[string]map[string]argo.Minor{}
	for line := range strings.Lines(healthChecks) {
		words := strings.Fields(line)
		if words[0] == "#" {
			continue
		}
		of := map[string]argo.Minor{}
		for _, word := range words[1:] {
			kind, since, newer := strings.Cut(word, "/")
			of[kind] = argo.Oldest
			if n, err := strconv.Atoi(since); newer && err == nil {
				of[kind] = argo.Minor(n)
			}
		}
		kinds[words[0]] = of
	}
	return kinds
})

// asks reports whether a custom resource is ready only once its controller sets its status.
func (e Engine) asks(group, kind string) bool {
	groups := []string{group}
	for domain, more := group, true; more; {
		if _, domain, more = strings.Cut(domain, "."); more {
			groups = append(groups, "_."+domain)
		}
	}
	for _, g := range groups {
		for _, k := range []string{kind, "_"} {
			if since := e.controllers[g][k]; since != 0 && e.minor.Has(since) {
				return true
			}
		}
	}
	return false
}

// exempt reports whether an object is not assessed.
func (e Engine) exempt(n *yaml.Node) bool {
	return e.exempts != "" && strict.Text(n, "metadata", "annotations", e.exempts) == "true"
}

// Checks reports whether a unit of which nothing is applied is not ready. What is not known counts as such.
func (e Engine) Checks(u Unit) bool {
	return u.May != nil || slices.ContainsFunc(u.Objects, func(o render.Document) bool {
		return !IsHook(o.Node) && (e.checked == nil || slices.Contains(e.checked, strict.Text(o.Node, "kind")))
	})
}

// ofArgoCD are the kinds that only a cluster with Argo CD has.
var ofArgoCD = []string{"Application of argoproj.io/v1alpha1", "ApplicationSet of argoproj.io/v1alpha1", "AppProject of argoproj.io/v1alpha1"}

// IsEngines reports whether a kind, as in Provides, is Argo CD's.
func IsEngines(kind string) bool { return slices.Contains(ofArgoCD, kind) }

// fluxGroups are suffixes of the groups of Flux and its operator.
var fluxGroups = []string{".toolkit.fluxcd.io", "source.extensions.fluxcd.io", "fluxcd.controlplane.io"}

// IsFlux reports whether a group is one of Flux or its operator.
func IsFlux(group string) bool {
	return slices.ContainsFunc(fluxGroups, func(g string) bool { return strings.HasSuffix(group, g) })
}

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
