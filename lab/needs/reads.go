package needs

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab/render"
	"homelab/lab/strict"
)

// Namespace returns a namespace as in Provides.
func Namespace(name string) string { return "Namespace " + name }

// Split returns the parts of an object's name as in Provides. The namespace may be empty.
func Split(object string) (kind, namespace, name string) {
	kind, rest, _ := strings.Cut(object, " ")
	namespace, name, namespaced := strings.Cut(rest, "/")
	if !namespaced {
		return kind, "", rest
	}
	return kind, namespace, name
}

// reads returns what an object refers to, and without which it cannot be created or its pods do not start, as in Provides. It is in a namespace unless it names one.
func reads(n *yaml.Node, namespace string) []string {
	var list []string
	in := namespaceOf(n, namespace)
	if namespaced, _ := render.Namespaced(render.Document{Node: n}); namespaced && in != "" {
		list = append(list, Namespace(in))
	}
	if !Idle(n) {
		list = append(list, podReads(podOf(n), in)...)
	}
	return list
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

// podReads returns what pods read.
func podReads(spec *yaml.Node, namespace string) []string {
	var list []string
	read := func(kind string, ref *yaml.Node, key string) {
		if name := strict.Text(ref, key); name != "" && strict.Text(ref, "optional") != "true" && name != "kube-root-ca.crt" {
			list = append(list, kind+" "+namespace+"/"+name)
		}
	}
	if account := strict.Text(spec, "serviceAccountName"); account != "default" && namespace != metav1.NamespaceSystem {
		read("ServiceAccount", spec, "serviceAccountName")
	}
	for _, c := range slices.Concat(strict.List(spec, "initContainers"), strict.List(spec, "containers")) {
		for _, e := range strict.List(c, "env") {
			read("Secret", strict.Get(e, "valueFrom", "secretKeyRef"), "name")
			read("ConfigMap", strict.Get(e, "valueFrom", "configMapKeyRef"), "name")
		}
		for _, e := range strict.List(c, "envFrom") {
			read("Secret", strict.Get(e, "secretRef"), "name")
			read("ConfigMap", strict.Get(e, "configMapRef"), "name")
		}
	}
	if class := strict.Text(spec, "priorityClassName"); class != "" && !strings.HasPrefix(class, "system-") {
		list = append(list, "PriorityClass "+class)
	}
	if class := strict.Text(spec, "runtimeClassName"); class != "" {
		list = append(list, "RuntimeClass "+class)
	}
	for _, v := range strict.List(spec, "volumes") {
		read("PersistentVolumeClaim", strict.Get(v, "persistentVolumeClaim"), "claimName")
		read("Secret", strict.Get(v, "secret"), "secretName")
		read("ConfigMap", strict.Get(v, "configMap"), "name")
		for _, p := range strict.List(v, "projected", "sources") {
			read("Secret", strict.Get(p, "secret"), "name")
			read("ConfigMap", strict.Get(p, "configMap"), "name")
		}
	}
	return list
}

// Images returns the images of objects.
func Images(objects []render.Document) []string {
	var list []string
	for _, c := range Containers(objects...) {
		if ref := strict.Text(c, "image"); ref != "" {
			list = appendNew(list, ref)
		}
	}
	return list
}

// AlwaysPulled returns the images of objects that nodes pull even if they have them.
func AlwaysPulled(objects []render.Document) []string {
	var list []string
	for _, c := range Containers(objects...) {
		image, policy := strict.Text(c, "image"), strict.Text(c, "imagePullPolicy")
		_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
		if image != "" && (policy == "Always" || policy == "" && (tag == "" || tag == "latest") && !strings.Contains(image, "@")) {
			list = append(list, image)
		}
	}
	return list
}

// Containers returns the containers of the pods of objects of any kind.
func Containers(objects ...render.Document) []*yaml.Node {
	var list []*yaml.Node
	for _, o := range objects {
		for _, keys := range [][]any{{}, {"template", "spec"}, {"jobTemplate", "spec", "template", "spec"}} {
			pod := strict.Get(strict.Get(o.Node, "spec"), keys...)
			list = append(list, slices.Concat(strict.List(pod, "initContainers"), strict.List(pod, "containers"))...)
		}
	}
	return list
}
