package reconciliation

import (
	"maps"
	"slices"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Keep drops the applications and releases of all clusters but these.
func (v View) Keep(clusters []string) {
	maps.DeleteFunc(v.Apps, func(_ string, k kustomizev1.Kustomization) bool { return !slices.Contains(clusters, v.ClusterOf(k)) })
	maps.DeleteFunc(v.Releases, func(_ types.NamespacedName, r helmv2.HelmRelease) bool {
		return !slices.Contains(clusters, v.ReleaseIn(r))
	})
}

// ReleasesIn returns the releases of a spoke, or of the hub if spoke is empty.
func (v View) ReleasesIn(spoke string) []helmv2.HelmRelease {
	var list []helmv2.HelmRelease
	for _, r := range v.Releases {
		in := ""
		if r.Spec.KubeConfig != nil {
			in = v.ReleaseIn(r)
		}
		if in == spoke {
			list = append(list, r)
		}
	}
	return list
}

// Applies reports whether an application in view applied a release and still exists.
func (v View) Applies(r helmv2.HelmRelease) bool {
	for _, k := range v.Apps {
		if k.Name == r.Labels[FromName] && k.Namespace == r.Labels[FromNamespace] && k.ResourceVersion != "" {
			return true
		}
	}
	return false
}

// Parents returns the applications of a hub with other clusters that apply Kustomizations of those.
func (v View) Parents() []kustomizev1.Kustomization {
	if len(v.scope.Spokes) == 0 {
		return nil
	}
	var list []kustomizev1.Kustomization
	for _, name := range slices.Sorted(maps.Keys(v.Apps)) {
		k := v.Apps[name]
		for _, below := range v.Apps {
			if below.Labels[FromName] == k.Name && below.Labels[FromNamespace] == k.Namespace && v.ClusterOf(k) == v.scope.Home {
				list = append(list, k)
				break
			}
		}
	}
	return list
}

// entry is an object in an inventory.
type entry struct{ namespace, name, group, kind string }

// inventory returns the objects that a Kustomization applied last.
func inventory(k kustomizev1.Kustomization) []entry {
	if k.Status.Inventory == nil {
		return nil
	}
	var list []entry
	for _, e := range k.Status.Inventory.Entries {
		if parts := strings.Split(e.ID, "_"); len(parts) == 4 {
			list = append(list, entry{parts[0], parts[1], parts[2], parts[3]})
		}
	}
	return list
}

// Workloads returns the Deployments and StatefulSets that a Kustomization applied last, "Deployment/web", by namespace.
func Workloads(k kustomizev1.Kustomization) map[string][]string {
	names := map[string][]string{}
	for _, e := range inventory(k) {
		if e.group == "apps" && (e.kind == "Deployment" || e.kind == "StatefulSet") {
			names[e.namespace] = append(names[e.namespace], e.kind+"/"+e.name)
		}
	}
	return names
}
