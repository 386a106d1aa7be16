package fluxset

import (
	"fmt"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	notificationv1 "github.com/fluxcd/notification-controller/api/v1"
	notificationv1beta3 "github.com/fluxcd/notification-controller/api/v1beta3"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"go.yaml.in/yaml/v3"

	"homelab/lab/strict"
)

// servedVersions are those of Flux's groups.
var servedVersions = map[string]string{
	kustomizev1.GroupVersion.Group: kustomizev1.GroupVersion.Version, helmv2.GroupVersion.Group: helmv2.GroupVersion.Version,
	sourcev1.GroupVersion.Group: sourcev1.GroupVersion.Version, notificationv1.GroupVersion.Group: notificationv1beta3.GroupVersion.Version,
}

// served returns the apiVersion that Flux serves instead of an object's, or "".
func served(n *yaml.Node) string {
	group, version, _ := strings.Cut(strict.Text(n, "apiVersion"), "/")
	is := servedVersions[group]
	if group == notificationv1.GroupVersion.Group && strict.Text(n, "kind") == notificationv1.ReceiverKind {
		is = notificationv1.GroupVersion.Version
	}
	if is == "" || is == version {
		return ""
	}
	return group + "/" + is
}

// removedFields are removed fields of old APIs, without effect on the applied objects.
var removedFields = map[string][]string{
	"Kustomization": {"validation"}, "GitRepository": {"gitImplementation", "accessFrom"}, "HelmRepository": {"accessFrom"}, "Bucket": {"accessFrom"}, "HelmChart": {"accessFrom"},
}

// Removed fields of old APIs that have a replacement.
const (
	mergePatches = "patchesStrategicMerge"
	jsonPatches  = "patchesJson6902"
	valuesFile   = "valuesFile"
)

// formerFields returns the operations that replace or remove an object's fields of an old API.
func formerFields(n *yaml.Node) []operation {
	var ops []operation
	spec := strict.Get(n, "spec")
	switch strict.Text(n, "kind") {
	case kustomizev1.KustomizationKind:
		ops = formerPatches(spec, "/spec")
	case helmv2.HelmReleaseKind:
		ops = formerValuesFile(strict.Get(spec, "chart", "spec"), "/spec/chart/spec")
		for i, r := range strict.List(spec, "postRenderers") {
			ops = append(ops, formerPatches(strict.Get(r, "kustomize"), fmt.Sprintf("/spec/postRenderers/%d/kustomize", i))...)
		}
	case sourcev1.HelmChartKind:
		ops = formerValuesFile(spec, "/spec")
	}
	for _, field := range removedFields[strict.Text(n, "kind")] {
		if strict.Get(spec, field) != nil {
			ops = append(ops, operation{Op: "remove", Path: "/spec/" + field})
		}
	}
	return ops
}

// formerPatches moves former kinds of patches at a path to the list of all patches.
func formerPatches(n *yaml.Node, path string) []operation {
	if !hasFormerPatches(n) {
		return nil
	}
	ops := []operation{{"add", path + "/patches", Patches(n)}}
	for _, field := range []string{mergePatches, jsonPatches} {
		if strict.Get(n, field) != nil {
			ops = append(ops, operation{Op: "remove", Path: path + "/" + field})
		}
	}
	return ops
}

// Patches returns the patches of a Kustomization's spec or of a post-renderer, including those in fields of old APIs, in the order in which kustomize applies them.
func Patches(n *yaml.Node) []any {
	var patches []any
	for _, p := range strict.List(n, mergePatches) {
		patches = append(patches, Patch{Patch: textOf(p)})
	}
	for _, p := range strict.List(n, "patches") {
		patches = append(patches, p)
	}
	for _, p := range strict.List(n, jsonPatches) {
		patch := Patch{Patch: textOf(strict.Get(p, "patch"))}
		if target := strict.Get(p, "target"); target != nil {
			_ = target.Decode(&patch.Target) // of texts, or invalid for Flux too
		}
		patches = append(patches, patch)
	}
	return patches
}

func hasFormerPatches(n *yaml.Node) bool {
	return strict.Get(n, mergePatches) != nil || strict.Get(n, jsonPatches) != nil
}

// formerValuesFile moves a chart's only values file at a path to the list of all, as the first.
func formerValuesFile(n *yaml.Node, path string) []operation {
	file := strict.Text(n, valuesFile)
	if file == "" {
		return nil
	}
	files := []string{file}
	for _, f := range strict.List(n, "valuesFiles") {
		files = append(files, f.Value)
	}
	return []operation{{"add", path + "/valuesFiles", files}, {Op: "remove", Path: path + "/" + valuesFile}}
}

// textOf returns an inline patch as text, without flow style, which kustomize rejects in JSON patches.
func textOf(n *yaml.Node) string {
	if n == nil || n.Kind == yaml.ScalarNode {
		return strict.Text(n)
	}
	var patch any
	if err := n.Decode(&patch); err != nil {
		return ""
	}
	out, err := yaml.Marshal(patch)
	if err != nil {
		return ""
	}
	return string(out)
}
