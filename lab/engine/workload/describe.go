package workload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Describe describes the workloads ("Deployment/server", by namespace) that are not ready, each with one failing pod and its last log lines: "deployment podinfo: 0 of 2
// ready". Read errors are ignored.
func Describe(ctx context.Context, client kubernetes.Interface, names map[string][]string) []string {
	var lines []string
	for _, n := range slices.Sorted(maps.Keys(names)) {
		all, err := Observe(ctx, client, n, names[n])
		if err != nil {
			continue
		}
		waiting := Pending(all)
		if len(waiting) == 0 {
			continue
		}
		pods, err := client.CoreV1().Pods(n).List(ctx, metav1.ListOptions{})
		for _, w := range waiting {
			lines = append(lines, fmt.Sprintf("%s %s: %s", strings.ToLower(w.Kind), w.Name, strings.TrimPrefix(w.String(), w.Name+" ")))
			if err != nil {
				continue
			}
			for i := range pods.Items {
				if !Owns(w, &pods.Items[i]) {
					continue
				}
				if why := explain(ctx, client, &pods.Items[i]); why != nil {
					lines = append(lines, why...)
					break // replicas fail alike
				}
			}
		}
	}
	return lines
}
