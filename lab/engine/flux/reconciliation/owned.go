package reconciliation

import (
	"maps"
	"slices"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"homelab/lab/engine/kube"
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

// inventory returns the objects that a Kustomization applied last.
func inventory(k kustomizev1.Kustomization) []kube.Object {
	if k.Status.Inventory == nil {
		return nil
	}
	return objects(k.Status.Inventory.Entries)
}

// installed returns the objects of a release.
func installed(r helmv2.HelmRelease) []kube.Object {
	if r.Status.Inventory == nil {
		return nil
	}
	return objects(r.Status.Inventory.Entries)
}

func objects[R kustomizev1.ResourceRef | helmv2.ResourceRef](entries []R) []kube.Object {
	var list []kube.Object
	for _, e := range entries {
		list = appendID(list, kustomizev1.ResourceRef(e).ID)
	}
	return list
}

// appendID appends the object of an id, NAMESPACE_NAME_GROUP_KIND, in whose name two underscores are a colon.
func appendID(list []kube.Object, id string) []kube.Object {
	namespace, rest, ok := strings.Cut(id, "_")
	kind := strings.LastIndex(rest, "_")
	if !ok || kind < 0 {
		return list
	}
	group := strings.LastIndex(rest[:kind], "_")
	if group < 0 {
		return list
	}
	name := strings.ReplaceAll(rest[:group], "__", ":")
	if strings.Contains(name, "_") {
		return list
	}
	return append(list, kube.Object{Group: rest[group+1 : kind], Kind: rest[kind+1:], Namespace: namespace, Name: name})
}

// Applied returns the objects that the lab's Flux applied in a spoke, or in its own cluster if spoke is empty.
func (v View) Applied(spoke string) []kube.Object {
	var list []kube.Object
	for _, k := range v.all() {
		in := ""
		if c := k.Spec.KubeConfig; c != nil && c.SecretRef != nil {
			in = v.ClusterOf(k)
		}
		if in == spoke {
			list = append(list, inventory(k)...)
		}
	}
	for _, r := range v.ReleasesIn(spoke) {
		list = append(list, installed(r)...)
		if r.Spec.Install != nil && r.Spec.Install.CreateNamespace {
			list = append(list, kube.Object{Kind: "Namespace", Name: r.GetReleaseNamespace()})
		}
	}
	return list
}

// all returns all Kustomizations of the lab.
func (v View) all() []kustomizev1.Kustomization {
	return slices.AppendSeq(slices.Clone(v.Layers), maps.Values(v.Apps))
}

// Origin distinguishes what the lab's Flux applied from what another Flux did.
func (v View) Origin() func(*unstructured.Unstructured) kube.Origin {
	layers, releases := map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
	for _, k := range v.all() {
		layers[keyOf(&k)] = true
	}
	for key := range v.Releases {
		releases[key] = true
	}
	return func(o *unstructured.Unstructured) kube.Origin {
		labels, is := o.GetLabels(), kube.Untold
		for _, by := range []struct {
			name, namespace string
			known           map[types.NamespacedName]bool
		}{{FromName, FromNamespace, layers}, {FromRelease, FromReleaseNamespace, releases}} {
			name, labelled := labels[by.name]
			switch {
			case !labelled:
			case !by.known[types.NamespacedName{Namespace: labels[by.namespace], Name: name}]:
				return kube.Theirs
			default:
				is = kube.Ours
			}
		}
		return is
	}
}

// Workloads returns the Deployments and StatefulSets that a Kustomization applied last, "Deployment/web", by namespace.
func Workloads(k kustomizev1.Kustomization) map[string][]string {
	names := map[string][]string{}
	for _, e := range inventory(k) {
		if e.Group == "apps" && (e.Kind == "Deployment" || e.Kind == "StatefulSet") {
			names[e.Namespace] = append(names[e.Namespace], e.Kind+"/"+e.Name)
		}
	}
	return names
}
