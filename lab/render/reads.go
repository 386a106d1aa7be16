package render

import (
	"cmp"
	"slices"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	"homelab/lab/strict"
)

// Objects are the namespaces, ConfigMaps, Secrets and ServiceAccounts of a folder: "Namespace NAME", "Secret NAMESPACE/NAME".
type Objects struct {
	Read    []string // those without which objects cannot be created, or workloads do not start
	Created []string
	More    bool // its workloads may create others
}

// Namespace returns a namespace as Objects names it.
func Namespace(name string) string { return "Namespace " + name }

// creators are built-in roles that may create Secrets.
var creators = []string{"cluster-admin", "admin", "edit"}

// Reads returns what objects read and create. They are in a namespace unless they name one.
func Reads(objects []Document, namespace string) Objects {
	var out Objects
	for _, o := range objects {
		for _, n := range strict.Items(o.Node) {
			kind, in := strict.Text(n, "kind"), cmp.Or(strict.Text(n, "metadata", "namespace"), namespace)
			namespaced, _ := openapi.IsNamespaceScoped(kyaml.TypeMeta{APIVersion: strict.Text(n, "apiVersion"), Kind: kind})
			if of := Namespace(in); namespaced && in != "" && !slices.Contains(out.Read, of) {
				out.Read = append(out.Read, of)
			}
			switch kind {
			case "Namespace":
				out.Created = append(out.Created, Namespace(strict.Text(n, "metadata", "name")))
			case "ConfigMap", "Secret", "ServiceAccount":
				out.Created = append(out.Created, kind+" "+in+"/"+strict.Text(n, "metadata", "name"))
			case "Deployment", "StatefulSet", "DaemonSet", "Job":
				if strict.Text(n, "spec", "replicas") != "0" {
					out.pod(strict.Get(n, "spec", "template", "spec"), in)
				}
			case "Pod":
				out.pod(strict.Get(n, "spec"), in)
			case "Role", "ClusterRole":
				out.More = out.More || slices.ContainsFunc(sequence(n, "rules"), mayCreate)
			case "RoleBinding", "ClusterRoleBinding":
				out.More = out.More || slices.Contains(creators, strict.Text(n, "roleRef", "name"))
			}
		}
	}
	return out
}

// mayCreate reports whether a rule of a role permits to create ConfigMaps, Secrets or ServiceAccounts.
func mayCreate(rule *yaml.Node) bool {
	has := func(key string, values ...string) bool {
		return slices.ContainsFunc(sequence(rule, key), func(n *yaml.Node) bool { return n.Value == "*" || slices.Contains(values, n.Value) })
	}
	return has("resources", "secrets", "configmaps", "serviceaccounts") && has("verbs", "create")
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
	for _, v := range sequence(spec, "volumes") {
		read("Secret", strict.Get(v, "secret"), "secretName")
		read("ConfigMap", strict.Get(v, "configMap"), "name")
		for _, p := range sequence(v, "projected", "sources") {
			read("Secret", strict.Get(p, "secret"), "name")
			read("ConfigMap", strict.Get(p, "configMap"), "name")
		}
	}
}
