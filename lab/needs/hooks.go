package needs

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab/argo"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// helmHookAnnotation is replaced by Argo CD's own, argo.Hook.
const helmHookAnnotation = "helm.sh/hook"

// hooks returns the hooks that an object is, and whether it is any, known or not.
func hooks(n *yaml.Node) (names []string, is bool) {
	for _, key := range []string{argo.Hook, helmHookAnnotation} {
		if text := strict.Get(n, "metadata", "annotations", key); text != nil && text.Value != "crd-install" {
			for _, name := range strings.Split(text.Value, ",") {
				names = append(names, strings.TrimSpace(name))
			}
			return names, true
		}
	}
	return nil, false
}

// IsHook reports whether an object is a hook.
func IsHook(n *yaml.Node) bool {
	_, is := hooks(n)
	return is
}

// applied are the hooks of a sync that succeeds.
var applied = []string{"PreSync", "Sync", "PostSync", "pre-install", "pre-upgrade", "post-install", "post-upgrade"}

// Applied reports whether a sync that succeeds applies an object. It does not apply tests of charts, and hooks of failures and deletions.
func Applied(o render.Document) bool {
	names, is := hooks(o.Node)
	return !is || slices.ContainsFunc(names, func(name string) bool { return slices.Contains(applied, name) })
}

// Idle reports whether an object does not need pods: a CronJob, a workload without replicas, and a suspended Job.
func Idle(n *yaml.Node) bool {
	switch strict.Text(n, "kind") {
	case "CronJob":
		return true
	case "Deployment", "ReplicaSet", "StatefulSet":
		return strict.Text(n, "spec", "replicas") == "0"
	case "Job":
		return strict.Text(n, "spec", "suspend") == "true"
	}
	return false
}
