package draft

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/draft/fluxroot"
	"homelab/lab/flux"
	"homelab/lab/fluxset"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// accessWords are the words in names of Secrets that do not name a cluster.
var accessWords = regexp.MustCompile(`(^|-)(cluster|kubeconfig|kube|config|kcfg|secret|access|remote|admin|flux)(-|$)`)

// remoteClusters returns the clusters whose kubeconfigs the Kustomizations and HelmReleases below a root refer to, and the repositories do not contain.
func (d *drafting) remoteClusters(root fluxroot.Root) []target {
	x := d.expandRoot(root, &lacks{})
	var list []target
	seen := map[string]bool{}
	for _, app := range slices.Concat(x.Roots, x.Applications) {
		for _, k := range app.Kubeconfigs {
			if k.Name == "" || seen[k.String()] || x.Has(fluxset.Read{Kind: "Secret", Namespace: k.Namespace, Name: k.Name}) {
				continue
			}
			seen[k.String()] = true
			name := remoteName(k.KubeconfigSecret)
			if name == root.Cluster {
				name += "-spoke"
			}
			i := slices.IndexFunc(list, func(t target) bool { return t.name == name })
			if i < 0 {
				list, i = append(list, target{name: name}), len(list)
			}
			list[i].secrets = append(list[i].secrets, k)
		}
	}
	return list
}

// isKubeconfig reports whether lab provides the content of a Secret.
func (d *drafting) isKubeconfig(o render.Document) bool {
	return strict.Text(o.Node, "kind") == "Secret" && slices.ContainsFunc(d.remotes, func(t target) bool {
		return slices.ContainsFunc(t.secrets, func(k fluxset.Kubeconfig) bool {
			return k.Name == fluxset.Name(o.Node) && k.Namespace == strict.Text(o.Node, "metadata", "namespace")
		})
	})
}

// remoteName names a cluster after the Secret with its kubeconfig, or after the namespace if that is generic.
func remoteName(k lab.KubeconfigSecret) string {
	stem := k.Name
	for before := ""; stem != before; {
		before = stem
		stem = strings.Trim(accessWords.ReplaceAllString(stem, "$1$3"), "-.")
	}
	if in, ok := flux.ClusterOf(k.Namespace); ok && k.Name == flux.ClusterKubeconfig {
		return in
	}
	if stem == "" && !builtin(k.Namespace) {
		stem = strings.TrimPrefix(k.Namespace, "cluster-")
	}
	return cmp.Or(clusterName(stem), string(lab.RoleSpoke))
}

// scope returns the scope of a cluster's Flux.
func (d *drafting) scope(cluster string) flux.Scope {
	if len(d.remotes) == 0 {
		return flux.Scope{Home: cluster}
	}
	return flux.ScopeOf(cluster, d.estate.Clusters)
}
