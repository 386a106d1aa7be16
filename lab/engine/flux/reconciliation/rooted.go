package reconciliation

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"homelab/lab/engine/kube"
)

// rooted returns the Kustomizations that descend from the lab's roots, and drops the releases that do not: in a cluster that lab did not make, the others are its
// owner's. One that is noted counts as a parent after its removal.
func (v View) rooted(all []kustomizev1.Kustomization) []kustomizev1.Kustomization {
	own := map[types.NamespacedName]bool{}
	for _, k := range all {
		if !v.IsRoot(k) {
			continue
		}
		own[keyOf(&k)] = true
		for _, key := range noted(k) {
			own[key] = true
		}
	}
	parent := func(o metav1.Object) types.NamespacedName {
		return types.NamespacedName{Namespace: o.GetLabels()[FromNamespace], Name: o.GetLabels()[FromName]}
	}
	for found := true; found; {
		found = false
		for _, k := range all {
			if key := keyOf(&k); !own[key] && own[parent(&k)] {
				own[key], found = true, true
			}
		}
	}
	maps.DeleteFunc(v.Releases, func(_ types.NamespacedName, r helmv2.HelmRelease) bool {
		_, here := v.scope.Owner(r.Namespace) // may outlive its Kustomization
		return !own[parent(&r)] && !(here && r.Labels[FromNamespace] == r.Namespace)
	})
	return slices.DeleteFunc(all, func(k kustomizev1.Kustomization) bool { return !own[keyOf(&k)] })
}

// noted returns the Kustomizations that NoteAll noted on a root.
func noted(root kustomizev1.Kustomization) []types.NamespacedName {
	var keys []types.NamespacedName
	for one := range strings.FieldsSeq(root.Annotations[kustomizationsNote]) {
		namespace, name, _ := strings.Cut(one, "/")
		keys = append(keys, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return keys
}

// Made reports whether the labels of an object name a Kustomization of the lab, present or noted.
func (v View) Made(labels map[string]string) bool {
	at := types.NamespacedName{Namespace: labels[FromNamespace], Name: labels[FromName]}
	return slices.ContainsFunc(v.all(), func(k kustomizev1.Kustomization) bool {
		return keyOf(&k) == at || v.IsRoot(k) && slices.Contains(noted(k), at)
	})
}

// NoteAll notes on the first root all Kustomizations below it, which are about to be removed: those that they applied outlive them for a while.
func (v View) NoteAll(ctx context.Context, client dynamic.Interface) error {
	if !v.scope.Rooted || !v.HasRoot() {
		return nil
	}
	root := v.Layers[0]
	known := noted(root)
	all := slices.Clone(known)
	for _, k := range v.all() {
		if key := keyOf(&k); !v.IsRoot(k) && !slices.Contains(all, key) {
			all = append(all, key)
		}
	}
	if len(all) == len(known) {
		return nil
	}
	var names []string
	for _, key := range all {
		names = append(names, key.String())
	}
	slices.Sort(names)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{kustomizationsNote: strings.Join(names, " ")}}})
	if err != nil {
		return err
	}
	_, err = client.Resource(Kustomizations).Namespace(root.Namespace).Patch(ctx, root.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: kube.FieldManager})
	return kube.Wrap("kustomization "+root.Name, err)
}
