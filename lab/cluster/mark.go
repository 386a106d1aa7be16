package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"homelab/lab"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/applyconfigurations/core/v1"
)

// The mark is a ConfigMap in kube-system: what the cluster was made from and which images it was given. It is kept in the cluster, so that it goes with it,
// and written last, so that a cluster without one is known to be half made.
const (
	markName   = "lab"
	markInputs = "inputs"
	markImages = "images"
)

// Mark writes what a cluster was made from and which images it was given, each by a word of the caller's.
func (k *Kind) Mark(ctx context.Context, name, inputs string, images []string) error {
	client, err := k.client(name)
	if err != nil {
		return err
	}
	m := corev1.ConfigMap(markName, system).WithLabels(map[string]string{lab.LabelName: k.lab, lab.LabelPart: "cluster"}).
		WithData(map[string]string{markInputs: inputs, markImages: strings.Join(slices.Compact(slices.Sorted(slices.Values(images))), " ")})
	if _, err := client.CoreV1().ConfigMaps(system).Apply(ctx, m, metav1.ApplyOptions{FieldManager: "lab", Force: true}); err != nil {
		return fmt.Errorf("cluster %s: mark: %w", name, err)
	}
	return nil
}
