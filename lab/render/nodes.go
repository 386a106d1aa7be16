package render

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab/strict"
)

// Unplaced returns the labels that the pods of a workload require and none of the nodes has, "disk=ssd", or "". A DaemonSet requires no node.
func Unplaced(object *yaml.Node, nodes []map[string]string) string {
	spec := podOf(object)
	if spec == nil || nodes == nil || strict.Text(object, "kind") == "DaemonSet" || Idle(Document{Node: object}) || strict.Get(spec, "nodeSelector") == nil && strict.Get(spec, "affinity", "nodeAffinity") == nil {
		return ""
	}
	text, err := yaml.Marshal(spec)
	if err != nil {
		return ""
	}
	var pod corev1.Pod
	if err := sigsyaml.Unmarshal(text, &pod.Spec); err != nil {
		return "" // the API server rejects it
	}
	required := nodeaffinity.GetRequiredNodeAffinity(&pod)
	if slices.ContainsFunc(nodes, func(labels map[string]string) bool {
		fits, err := required.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}})
		return fits || err != nil
	}) {
		return ""
	}
	return requirements(pod.Spec, nodes)
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
