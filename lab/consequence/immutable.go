package consequence

import (
	"reflect"
	"slices"
	"strings"
)

// fixed lists, by group and kind, the fields that the API server refuses to change (ValidateUpdate in k8s.io/kubernetes/pkg/apis).
var fixed = map[string][]string{
	"apps/Deployment":                       {"spec.selector"},
	"apps/DaemonSet":                        {"spec.selector"},
	"apps/ReplicaSet":                       {"spec.selector"},
	"apps/StatefulSet":                      {"spec.selector", "spec.serviceName", "spec.volumeClaimTemplates", "spec.podManagementPolicy"},
	"batch/Job":                             {"spec.selector", "spec.template", "spec.completionMode", "spec.podFailurePolicy"},
	"/PersistentVolumeClaim":                {"spec.accessModes", "spec.selector", "spec.storageClassName", "spec.volumeMode", "spec.dataSource", "spec.dataSourceRef"},
	"/Secret":                               {"type"},
	"rbac.authorization.k8s.io/RoleBinding": {"roleRef"},
	"rbac.authorization.k8s.io/ClusterRoleBinding":  {"roleRef"},
	"storage.k8s.io/StorageClass":                   {"provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"},
	"storage.k8s.io/CSIDriver":                      {"spec.attachRequired", "spec.fsGroupPolicy", "spec.volumeLifecycleModes"},
	"scheduling.k8s.io/PriorityClass":               {"value", "preemptionPolicy"},
	"networking.k8s.io/IngressClass":                {"spec.controller"},
	"node.k8s.io/RuntimeClass":                      {"handler"},
	"apiextensions.k8s.io/CustomResourceDefinition": {"spec.group", "spec.scope"},
}

// defaults are the values of absent fields.
var defaults = map[string]any{
	"spec.podManagementPolicy": "OrderedReady", "spec.serviceName": "", "spec.completionMode": "NonIndexed", "spec.volumeMode": "Filesystem", "type": "Opaque",
	"preemptionPolicy": "PreemptLowerPriority", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
}

// chosen are fields that the API server sets if they are absent.
var chosen = []string{"spec.selector", "spec.storageClassName"}

// immutable returns the first field that differs and cannot be changed, or "".
func immutable(before, after map[string]any) string {
	group, _, ok := strings.Cut(text(after, "apiVersion"), "/")
	if !ok {
		group = ""
	}
	kind := text(after, "kind")
	paths := fixed[group+"/"+kind]
	if group == "" && (kind == "ConfigMap" || kind == "Secret") && before["immutable"] == true {
		paths = append(slices.Clone(paths), "immutable", "data", "binaryData", "stringData")
	}
	for _, path := range paths {
		was, is := field(before, path), field(after, path)
		if reflect.DeepEqual(was, is) || slices.Contains(chosen, path) && (was == nil || is == nil) {
			continue
		}
		return path
	}
	if group == "" && kind == "Service" { // an address may be added or removed with the type
		was, is := text(before, "spec", "clusterIP"), text(after, "spec", "clusterIP")
		if was != "" && is != "" && was != is && text(after, "spec", "type") != "ExternalName" {
			return "spec.clusterIP"
		}
	}
	return ""
}

func field(m map[string]any, path string) any {
	v := get(m, strings.Split(path, ".")...)
	if v == nil {
		return defaults[path]
	}
	return v
}

// restarts reports whether pods are replaced.
func restarts(before, after map[string]any) bool {
	group, _, _ := strings.Cut(text(after, "apiVersion"), "/")
	kind := text(after, "kind")
	if group != "apps" || kind != "Deployment" && kind != "DaemonSet" && kind != "StatefulSet" {
		return false
	}
	replaces := text(after, "spec", "updateStrategy", "type") != "OnDelete"
	return replaces && !reflect.DeepEqual(get(before, "spec", "template"), get(after, "spec", "template"))
}
