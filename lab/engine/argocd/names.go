package argocd

import (
	"cmp"
	"strings"

	"homelab/lab/engine"
)

// aliases are what the estate calls the things that Argo CD has under names of its own: addons by their ApplicationSets, clusters by their servers.
type aliases engine.Names

// WithNames tells which addon an ApplicationSet is of, and which cluster a server. Without it, labels and the names of Applications have to do.
func WithNames(n engine.Names) Option { return func(a *ArgoCD) { a.names = aliases(n) } }

// cluster is the one that an application is for: the label that lab's templates set, else the destination.
func (n aliases) cluster(a application) string {
	to := a.Spec.Destination
	return cmp.Or(a.Metadata.Labels["cluster"], to.Name, n.Clusters[to.Server], to.Server)
}

// addon is the one that an application brings: that of the ApplicationSet which made it, else the label that lab's templates set, else the application's name
// without the cluster's.
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
