package argocd

import (
	"cmp"
	"strings"

	"homelab/lab/engine"
)

// aliases maps Argo CD's names to the estate's: addons by ApplicationSet, clusters by server.
type aliases engine.Names

// WithNames sets the addons of ApplicationSets and the clusters of servers. The default uses labels and the names of Applications.
func WithNames(n engine.Names) Option { return func(a *ArgoCD) { a.names = aliases(n) } }

// cluster returns the cluster of an Application: from the label set by lab's templates, else from the destination.
func (n aliases) cluster(a application) string {
	to := a.Spec.Destination
	return cmp.Or(a.Metadata.Labels["cluster"], to.Name, n.Clusters[to.Server], to.Server)
}

// addon returns the addon of an Application: that of its ApplicationSet, else from the label set by lab's templates, else the Application's name without the
// cluster's.
func (n aliases) addon(a application) string {
	for _, o := range a.Metadata.OwnerReferences {
		if addon := n.Addons[o.Name]; addon != "" && o.Kind == "ApplicationSet" {
			return addon
		}
	}
	if label := a.Metadata.Labels["addon"]; label != "" {
		return label
	}
	cluster := n.cluster(a)
	if rest, ok := strings.CutPrefix(a.Metadata.Name, cluster+"-"); ok {
		return rest
	}
	return strings.TrimSuffix(a.Metadata.Name, "-"+cluster)
}
