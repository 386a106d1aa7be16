package needs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"homelab/lab/strict"
)

// unplaced returns what the pods of a workload require of nodes with these labels and do not find, such as "a node with disk=ssd", or "". A DaemonSet requires no node.
func unplaced(object *yaml.Node, nodes []map[string]string) string {
	spec := podOf(object)
	if spec == nil || nodes == nil || strict.Text(object, "kind") == "DaemonSet" || Idle(object) ||
		strict.Get(spec, "nodeSelector") == nil && strict.Get(spec, "affinity") == nil && strict.Get(spec, "topologySpreadConstraints") == nil {
		return ""
	}
	pod, err := podWith(object)
	if err != nil {
		return "" // the API server rejects it
	}
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	fit := slices.DeleteFunc(slices.Clone(nodes), func(of map[string]string) bool {
		fits, err := required.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: of}})
		return !fits && err == nil
	})
	if len(fit) == 0 {
		return "a node with " + requirements(pod.Spec, nodes)
	}
	for _, key := range topologies(pod.Spec) {
		if fit = slices.DeleteFunc(fit, func(of map[string]string) bool { return !has(of, key) }); len(fit) == 0 {
			return "a node with label " + key
		}
	}
	return crowded(pod, replicas(object), fit)
}

// podWith returns a pod of a workload.
func podWith(object *yaml.Node) (*corev1.Pod, error) {
	template := strict.Get(object, "spec", "template")
	if strict.Text(object, "kind") == "Pod" {
		template = object
	}
	var of corev1.PodTemplateSpec
	if err := strict.Into(template, &of); err != nil {
		return nil, err
	}
	of.Namespace = strict.Text(object, "metadata", "namespace")
	return &corev1.Pod{ObjectMeta: of.ObjectMeta, Spec: of.Spec}, nil
}

// replicas returns the number of pods that a workload runs at the same time, if that decides its health.
func replicas(object *yaml.Node) int {
	switch strict.Text(object, "kind") {
	case "Deployment", "ReplicaSet", "StatefulSet":
		if n, err := strconv.Atoi(strict.Text(object, "spec", "replicas")); err == nil {
			return n
		}
	}
	return 1
}

// topologies returns the labels that a node must have: those of required affinities to pods, and of spreads.
func topologies(spec corev1.PodSpec) []string {
	var keys []string
	if a := spec.Affinity; a != nil && a.PodAffinity != nil {
		for _, term := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			keys = append(keys, term.TopologyKey)
		}
	}
	for _, c := range spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			keys = append(keys, c.TopologyKey)
		}
	}
	return keys
}

// crowded returns the nodes that pods of one workload need as they exclude each other, or "".
func crowded(pod *corev1.Pod, replicas int, nodes []map[string]string) string {
	room := func(key string, each int) string {
		values := map[string]bool{}
		for _, of := range nodes {
			if !has(of, key) {
				return "" // the scheduler asks only nodes with the label
			}
			values[of[key]] = true
		}
		if replicas <= each*len(values) {
			return ""
		}
		return fmt.Sprintf("%d nodes with different %s", (replicas+each-1)/each, key)
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		for _, term := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if !selects(term.LabelSelector, pod) || !inNamespace(term, pod.Namespace) {
				continue
			}
			if need := room(term.TopologyKey, 1); need != "" {
				return need
			}
		}
	}
	return ""
}

// inNamespace reports whether an affinity's term regards pods of a namespace, to which it belongs.
func inNamespace(term corev1.PodAffinityTerm, namespace string) bool {
	if s := term.NamespaceSelector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return true
	}
	return len(term.Namespaces) == 0 && term.NamespaceSelector == nil || slices.Contains(term.Namespaces, namespace)
}

// selects reports whether a selector selects a pod; nil selects none.
func selects(selector *metav1.LabelSelector, pod *corev1.Pod) bool {
	of, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && of.Matches(labels.Set(pod.Labels))
}

func has(labels map[string]string, key string) bool {
	_, has := labels[key]
	return has
}

// requirements describes the node labels that pods require, without those that all nodes have.
func requirements(spec corev1.PodSpec, nodes []map[string]string) string {
	var all []string
	for key, value := range spec.NodeSelector {
		if slices.ContainsFunc(nodes, func(labels map[string]string) bool { return labels[key] != value }) {
			all = append(all, key+"="+value)
		}
	}
	slices.Sort(all)
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		var terms []string
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			var of []string
			for _, e := range term.MatchExpressions {
				of = append(of, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, "|"))))
			}
			terms = append(terms, strings.Join(of, ", "))
		}
		all = append(all, strings.Join(terms, " or "))
	}
	return strings.Join(all, ", ")
}
