// Package needs says what objects need, provide and wait for, whatever engine applies them, and what of that a cluster of the lab lacks. It is pure.
package needs

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab/render"
	"homelab/lab/strict"
)

// Objects are what objects of a folder need by name, and of these what it creates: "Namespace NAME", "PriorityClass NAME", "RuntimeClass NAME", and "KIND NAMESPACE/NAME" of ConfigMaps,
// Secrets, ServiceAccounts and PersistentVolumeClaims.
type Objects struct {
	Read    []string // those without which objects cannot be created, or workloads do not start
	Created []string
	More    bool // its workloads may create others
}

// Namespace returns a namespace as Objects names it.
func Namespace(name string) string { return "Namespace " + name }

// Split returns the parts of an object's name as Objects has it. The namespace may be empty.
func Split(object string) (kind, namespace, name string) {
	kind, rest, _ := strings.Cut(object, " ")
	namespace, name, namespaced := strings.Cut(rest, "/")
	if !namespaced {
		return kind, "", rest
	}
	return kind, namespace, name
}

// creators are built-in roles that may create Secrets.
var creators = []string{"cluster-admin", "admin", "edit"}

// Reads returns what objects read and create. They are in a namespace unless they name one.
func Reads(objects []render.Document, namespace string) Objects {
	var out Objects
	for _, o := range objects {
		for _, n := range strict.Items(o.Node) {
			kind, in := strict.Text(n, "kind"), namespaceOf(n, namespace)
			namespaced, _ := render.Namespaced(render.Document{Node: n})
			if of := Namespace(in); namespaced && in != "" && !slices.Contains(out.Read, of) {
				out.Read = append(out.Read, of)
			}
			switch kind {
			case "Namespace", "PriorityClass", "RuntimeClass":
				out.Created = append(out.Created, kind+" "+strict.Text(n, "metadata", "name"))
			case "ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim":
				out.Created = append(out.Created, kind+" "+in+"/"+strict.Text(n, "metadata", "name"))
			case "Role", "ClusterRole":
				out.More = out.More || slices.ContainsFunc(sequence(n, "rules"), mayCreate)
			case "RoleBinding", "ClusterRoleBinding":
				out.More = out.More || slices.Contains(creators, strict.Text(n, "roleRef", "name"))
			}
			if !Idle(render.Document{Node: n}) {
				out.pod(podOf(n), in)
			}
		}
	}
	return out
}

// mayCreate reports whether a rule of a role permits to create ConfigMaps, Secrets or ServiceAccounts.
func mayCreate(rule *yaml.Node) bool {
	return permits(rule, []string{"create"}, "secrets", "configmaps", "serviceaccounts")
}

// permits reports whether a rule of a role permits a verb on a resource.
func permits(rule *yaml.Node, verbs []string, resources ...string) bool {
	has := func(key string, values []string) bool {
		return slices.ContainsFunc(sequence(rule, key), func(n *yaml.Node) bool { return n.Value == "*" || slices.Contains(values, n.Value) })
	}
	return has("resources", resources) && has("verbs", verbs)
}

func namespaceOf(n *yaml.Node, otherwise string) string {
	return cmp.Or(strict.Text(n, "metadata", "namespace"), otherwise)
}

func sequence(n *yaml.Node, path ...any) []*yaml.Node {
	if n = strict.Get(n, path...); n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// pod adds what a pod reads.
func (o *Objects) pod(spec *yaml.Node, namespace string) {
	if spec == nil {
		return
	}
	read := func(kind string, ref *yaml.Node, key string) {
		if name := strict.Text(ref, key); name != "" && strict.Text(ref, "optional") != "true" && name != "kube-root-ca.crt" {
			o.Read = append(o.Read, kind+" "+namespace+"/"+name)
		}
	}
	if account := strict.Text(spec, "serviceAccountName"); account != "default" && namespace != metav1.NamespaceSystem {
		read("ServiceAccount", spec, "serviceAccountName")
	}
	for _, c := range slices.Concat(sequence(spec, "initContainers"), sequence(spec, "containers")) {
		for _, e := range sequence(c, "env") {
			read("Secret", strict.Get(e, "valueFrom", "secretKeyRef"), "name")
			read("ConfigMap", strict.Get(e, "valueFrom", "configMapKeyRef"), "name")
		}
		for _, e := range sequence(c, "envFrom") {
			read("Secret", strict.Get(e, "secretRef"), "name")
			read("ConfigMap", strict.Get(e, "configMapRef"), "name")
		}
	}
	if class := strict.Text(spec, "priorityClassName"); class != "" && !strings.HasPrefix(class, "system-") {
		o.Read = append(o.Read, "PriorityClass "+class)
	}
	if class := strict.Text(spec, "runtimeClassName"); class != "" {
		o.Read = append(o.Read, "RuntimeClass "+class)
	}
	for _, v := range sequence(spec, "volumes") {
		read("PersistentVolumeClaim", strict.Get(v, "persistentVolumeClaim"), "claimName")
		read("Secret", strict.Get(v, "secret"), "secretName")
		read("ConfigMap", strict.Get(v, "configMap"), "name")
		for _, p := range sequence(v, "projected", "sources") {
			read("Secret", strict.Get(p, "secret"), "name")
			read("ConfigMap", strict.Get(p, "configMap"), "name")
		}
	}
}
