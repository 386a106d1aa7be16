package render

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"homelab/lab"
	"homelab/lab/strict"
)

// builtin returns the API versions of the kinds that every cluster has, as v1/Pod. Helm alone knows those of groups.
var builtin = sync.OnceValue(func() []string {
	var list []string
	for gvk := range scheme.Scheme.AllKnownTypes() {
		if version := gvk.Version; !strings.Contains(version, "alpha") && !strings.Contains(version, "beta") && version != runtime.APIVersionInternal {
			list = append(list, gvk.GroupVersion().String()+"/"+gvk.Kind)
		}
	}
	slices.Sort(list)
	return list
})

// kubeVersion returns the destination's version as Argo CD gives it to Helm: with the patch since 3.4.
func (s Source) kubeVersion() string {
	version := cmp.Or(s.KubeVersion, lab.KubernetesVersion+".0")
	if v := strings.Split(version, "."); !s.Minor.Has(4) && len(v) > 2 {
		version = v[0] + "." + v[1]
	}
	return version
}

// Namespaced reports whether objects of a kind are in namespaces, if that is known.
func Namespaced(o Document) (namespaced, known bool) {
	version, kind := strict.Text(o.Node, "apiVersion"), strict.Text(o.Node, "kind")
	if group, _, _ := strings.Cut(version, "/"); slices.Contains(newer[group], kind) {
		return false, true
	}
	return openapi.IsNamespaceScoped(kyaml.TypeMeta{APIVersion: version, Kind: kind})
}

// newer are kinds without namespaces that kyaml's schema does not have, by group.
var newer = map[string][]string{
	"admissionregistration.k8s.io": {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"},
	"flowcontrol.apiserver.k8s.io": {"FlowSchema", "PriorityLevelConfiguration"},
	"networking.k8s.io":            {"IPAddress", "ServiceCIDR"},
	"storage.k8s.io":               {"VolumeAttributesClass"},
	"resource.k8s.io":              {"DeviceClass", "ResourceSlice"},
	"certificates.k8s.io":          {"ClusterTrustBundle"},
}
