package needs

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab/render"
	"homelab/lab/strict"
)

// What workloads may do with the permissions of their unit, as in Provides.
const (
	createsVolumes = "creates volumes"
	createsNodes   = "creates nodes"
	CreatesObjects = "creates objects" // ConfigMaps, Secrets or ServiceAccounts, by itself or for custom resources
	createsPods    = "creates pods"
	definesKinds   = "defines kinds"
)

// permitting are the resources whose creation a role permits, by what workloads with it may do.
var permitting = map[string][]string{
	createsVolumes: {"persistentvolumes"}, createsNodes: {"nodes"}, CreatesObjects: {"secrets", "configmaps", "serviceaccounts"},
	createsPods: {"pods", "deployments", "statefulsets", "jobs"}, definesKinds: {"customresourcedefinitions"},
}

// creators are built-in roles with all of these permissions.
var creators = []string{"cluster-admin", "admin", "edit"}

// controls is what sets the status of custom resources of a group.
func controls(group string) string { return "a controller of " + group }

// ofClass is what provides volumes of a StorageClass, "" being none.
func ofClass(name string) string {
	if name == "" {
		return "a PersistentVolume"
	}
	return "StorageClass " + name
}

// uses is a pod with a PersistentVolumeClaim.
func uses(claim string) string { return "a pod with " + claim }

// Provides returns what objects provide to others, in a namespace unless they name one: "KIND of GROUP/VERSION" for definitions, "Namespace NAME", "PriorityClass NAME",
// "RuntimeClass NAME", "KIND NAMESPACE/NAME" of ConfigMaps, Secrets, ServiceAccounts and PersistentVolumeClaims, and names of this package.
func Provides(objects []render.Document, namespace string) []string {
	var list []string
	for _, o := range objects {
		for _, n := range strict.Items(o.Node) {
			list = append(list, provides(n, namespace)...)
		}
	}
	return list
}

func provides(n *yaml.Node, namespace string) []string {
	var list []string
	kind, name := strict.Text(n, "kind"), strict.Text(n, "metadata", "name")
	switch kind {
	case "CustomResourceDefinition":
		return defines(n)
	case "Namespace", "PriorityClass", "RuntimeClass":
		return []string{kind + " " + name}
	case "ConfigMap", "Secret", "ServiceAccount", claimKind:
		return []string{kind + " " + namespaceOf(n, namespace) + "/" + name}
	case "StorageClass":
		if isLocal(n) {
			return []string{ofClass(name)}
		}
	case "PersistentVolume":
		return []string{ofClass(strict.Text(n, "spec", "storageClassName"))}
	case "Role", "ClusterRole":
		for _, rule := range strict.List(n, "rules") {
			for can, resources := range permitting {
				if permits(rule, []string{"create"}, resources...) {
					list = append(list, can)
				}
			}
			for _, group := range strict.List(rule, "apiGroups") {
				if setsStatus(rule) {
					list = append(list, controls(group.Value))
				}
			}
		}
		return list
	case "RoleBinding", "ClusterRoleBinding":
		switch role := strict.Text(n, "roleRef", "name"); {
		case role == creators[0]:
			return []string{createsVolumes, createsNodes, CreatesObjects, createsPods, definesKinds, controls("*")}
		case slices.Contains(creators, role):
			return []string{CreatesObjects, createsPods}
		}
	}
	if need := served(n); len(need) > 0 && need[0].By != nil && !IsEngines(need[0].What) && !IsFlux(groupOf(n)) {
		list = append(list, CreatesObjects, createsPods)
	}
	for _, what := range reads(n, namespace) {
		if strings.HasPrefix(what, claimKind+" ") {
			list = append(list, uses(what))
		}
	}
	return list
}

// defines returns the kinds of a definition.
func defines(n *yaml.Node) []string {
	var list []string
	for _, v := range strict.List(n, "spec", "versions") {
		if strict.Text(v, "served") != "false" {
			list = append(list, kindOf(schema.GroupVersionKind{Group: strict.Text(n, "spec", "group"), Version: strict.Text(v, "name"), Kind: strict.Text(n, "spec", "names", "kind")}))
		}
	}
	return list
}

// permits reports whether a rule of a role permits a verb on a resource.
func permits(rule *yaml.Node, verbs []string, resources ...string) bool {
	has := func(key string, values []string) bool {
		return slices.ContainsFunc(strict.List(rule, key), func(n *yaml.Node) bool { return n.Value == "*" || slices.Contains(values, n.Value) })
	}
	return has("resources", resources) && has("verbs", verbs)
}

// setsStatus reports whether a rule of a role permits to set the status of objects.
func setsStatus(rule *yaml.Node) bool {
	return slices.ContainsFunc(strict.List(rule, "resources"), func(resource *yaml.Node) bool {
		return (resource.Value == "*" || strings.HasSuffix(resource.Value, "/status")) && permits(rule, []string{"update", "patch"}, resource.Value)
	})
}
