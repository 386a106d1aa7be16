package needs

import (
	_ "embed" // of the table
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"homelab/lab/argo"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// checked are the kinds without which Argo CD before 3.4 does not consider an Application healthy: those of GetHealthCheckFunc of gitops-engine, and any with an override in
// its configuration, as ConfigMap has in upstream's (ignoreResourceUpdates).
var checked = []string{
	"APIService", "ApplicationSet", "ConfigMap", "DaemonSet", "Deployment", "HorizontalPodAutoscaler", "Ingress", "Job", "PersistentVolumeClaim", "Pod", "ReplicaSet", "Rollout", "Service", "StatefulSet", "Workflow",
}

//go:embed healthchecks.txt
var healthChecks string

// customChecks returns, by group, the kinds of custom resources that are healthy once their controller sets their status, with the minor since which.
var customChecks = sync.OnceValue(func() map[string]map[string]argo.Minor {
	kinds := map[string]map[string]argo.Minor{}
	for line := range strings.Lines(healthChecks) {
		words := strings.Fields(line)
		if words[0] == "#" {
			continue
		}
		of := map[string]argo.Minor{}
		for _, word := range words[1:] {
			kind, since, newer := strings.Cut(word, "/")
			of[kind] = argo.Oldest
			if n, err := strconv.Atoi(since); newer && err == nil {
				of[kind] = argo.Minor(n)
			}
		}
		kinds[words[0]] = of
	}
	return kinds
})

// Rules are those of a minor of Argo CD for the health of objects, zero being the default.
type Rules struct{ Minor argo.Minor }

// hasCheck reports whether Argo CD checks the health of a custom resource.
func (r Rules) hasCheck(group, kind string) bool {
	groups := []string{group}
	for domain, more := group, true; more; {
		if _, domain, more = strings.Cut(domain, "."); more {
			groups = append(groups, "_."+domain)
		}
	}
	for _, g := range groups {
		for _, k := range []string{kind, "_"} {
			if since := customChecks()[g][k]; since != 0 && r.Minor.Has(since) {
				return true
			}
		}
	}
	return false
}

// Checked reports whether an Application of which nothing is applied, and that consists of an object, is unhealthy. Since 3.4, that is so whatever the object is.
func (r Rules) Checked(o render.Document) bool {
	return !IsHook(o) && (r.Minor.Has(4) || slices.Contains(checked, strict.Text(o.Node, "kind")))
}

// Wait is what an object waits for until Argo CD considers it healthy.
type Wait struct {
	Why string   // "Service web waits for a load balancer"
	By  []string // what would end it, as Provides returns it; none if nothing can
}

const (
	createsVolumes = "persistentvolumes"
	createsNodes   = "nodes"
)

// DefaultClass is the StorageClass of lab's nodes, and Provisioner what runs there: https://github.com/rancher/local-path-provisioner
const (
	DefaultClass = "standard"
	Provisioner  = "rancher.io/local-path"
)

// SharedMode returns an access mode that lab's StorageClass does not have and a claim of it asks for, or "".
func SharedMode(spec *yaml.Node) string {
	if class := strict.Text(spec, "storageClassName"); class != "" && class != DefaultClass {
		return ""
	}
	for _, mode := range sequence(spec, "accessModes") {
		if mode.Value == string(corev1.ReadWriteMany) || mode.Value == string(corev1.ReadOnlyMany) {
			return mode.Value
		}
	}
	return ""
}

// ofClass is what provides volumes of a StorageClass, "" being none.
func ofClass(name string) string {
	if name == "" {
		return "a PersistentVolume"
	}
	return "StorageClass " + name
}

// controls is what sets the status of custom resources of a group.
func controls(group string) string { return "a controller of " + group }

// Waits returns what objects wait for that a new cluster lacks, with nodes of these labels; nil for unknown ones.
func (r Rules) Waits(objects []render.Document, nodes []map[string]string) []Wait {
	var list []Wait
	for _, o := range objects {
		n := o.Node
		title := strict.Text(n, "kind") + " " + strict.Text(n, "metadata", "name")
		wait := func(what string, by ...string) { list = append(list, Wait{Why: title + " waits for " + what, By: by}) }
		if strict.Text(n, "metadata", "annotations", argo.IgnoreHealth) == "true" {
			continue
		}
		for _, claim := range claims(o) {
			if class := classOf(claim); class != "" {
				wait(class, class, createsVolumes)
			} else if mode := SharedMode(claim); mode != "" {
				list = append(list, Wait{Why: title + " waits for a volume, but lab's StorageClass has no " + mode})
			}
		}
		switch strict.Text(n, "kind") {
		case "Deployment":
			if strict.Text(n, "spec", "paused") == "true" {
				list = append(list, Wait{Why: title + " is paused"})
			}
		case "Job":
			if strict.Text(n, "spec", "suspend") == "true" {
				list = append(list, Wait{Why: title + " is suspended"})
			}
		}
		if group := groupOf(n); r.hasCheck(group, strict.Text(n, "kind")) {
			wait(controls(group), controls(group), controls("*"))
		}
		if need := Unplaced(n, nodes); need != "" {
			wait(need, createsNodes)
		}
	}
	return list
}

// IsLocal reports whether a StorageClass is provisioned by lab's nodes. They need to know the pod's node.
func IsLocal(class *yaml.Node) bool {
	return strict.Text(class, "provisioner") == Provisioner && strict.Text(class, "volumeBindingMode") == "WaitForFirstConsumer"
}

// claims returns the specs of the claims that an object is or makes.
func claims(o render.Document) []*yaml.Node {
	switch strict.Text(o.Node, "kind") {
	case "PersistentVolumeClaim":
		return []*yaml.Node{strict.Get(o.Node, "spec")}
	case "StatefulSet":
		var list []*yaml.Node
		for _, claim := range sequence(o.Node, "spec", "volumeClaimTemplates") {
			if !Idle(o) {
				list = append(list, strict.Get(claim, "spec"))
			}
		}
		return list
	}
	return nil
}

// classOf returns the StorageClass of a claim, or "" if lab's nodes have it.
func classOf(spec *yaml.Node) string {
	class := strict.Get(spec, "storageClassName")
	if class == nil || strict.IsNull(class) || class.Value == DefaultClass {
		return ""
	}
	return ofClass(class.Value)
}

// podOf returns the spec of a workload's pods, or nil.
func podOf(n *yaml.Node) *yaml.Node {
	switch strict.Text(n, "kind") {
	case "Pod":
		return strict.Get(n, "spec")
	case "DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet":
		return strict.Get(n, "spec", "template", "spec")
	}
	return nil
}

// setsStatus reports whether a rule of a role permits to set the status of objects.
func setsStatus(rule *yaml.Node) bool {
	return slices.ContainsFunc(sequence(rule, "resources"), func(resource *yaml.Node) bool {
		return (resource.Value == "*" || strings.HasSuffix(resource.Value, "/status")) && permits(rule, []string{"update", "patch"}, resource.Value)
	})
}

func groupOf(n *yaml.Node) string {
	group, _, _ := strings.Cut(strict.Text(n, "apiVersion"), "/")
	return group
}

// Provides returns what objects provide to others that wait for it.
func Provides(objects []render.Document) []string {
	var list []string
	for _, o := range objects {
		n := o.Node
		switch strict.Text(n, "kind") {
		case "StorageClass":
			if IsLocal(n) {
				list = append(list, ofClass(strict.Text(n, "metadata", "name")))
			}
		case "PersistentVolume":
			list = append(list, ofClass(strict.Text(n, "spec", "storageClassName")))
		case "Role", "ClusterRole":
			for _, rule := range sequence(n, "rules") {
				for _, group := range sequence(rule, "apiGroups") {
					if setsStatus(rule) {
						list = append(list, controls(group.Value))
					}
				}
				for _, resource := range []string{createsVolumes, createsNodes} {
					if permits(rule, []string{"create"}, resource) {
						list = append(list, resource)
					}
				}
			}
		case "RoleBinding", "ClusterRoleBinding":
			if strict.Text(n, "roleRef", "name") == creators[0] {
				list = append(list, createsVolumes, createsNodes, controls("*"))
			}
		}
	}
	return list
}

// AlwaysPulled returns the images of objects that nodes pull even if they have them.
func AlwaysPulled(objects []render.Document) []string {
	var list []string
	for _, o := range objects {
		pod := podOf(o.Node)
		for _, c := range slices.Concat(sequence(pod, "initContainers"), sequence(pod, "containers")) {
			image, policy := strict.Text(c, "image"), strict.Text(c, "imagePullPolicy")
			_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
			if policy == "Always" || policy == "" && (tag == "" || tag == "latest") && !strings.Contains(image, "@") {
				list = append(list, image)
			}
		}
	}
	return list
}
