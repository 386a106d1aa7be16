package helm

import (
	"context"
	"fmt"

	"helm.sh/helm/v3/pkg/chart"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// applyCRDs applies the files of a chart's crds/ folder.
func (c *Client) applyCRDs(ctx context.Context, crds []chart.CRD) error {
	resource := c.crds.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, file := range crds {
		for _, doc := range splitYAML(string(file.File.Data)) {
			obj := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(doc), &obj.Object); err != nil {
				return fmt.Errorf("%s: %w", file.Filename, err)
			}
			if obj.GetKind() != "CustomResourceDefinition" {
				continue
			}
			_, err := resource.Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "lab", Force: true})
			if err != nil {
				return fmt.Errorf("resource definition %s: %w", obj.GetName(), err)
			}
		}
	}
	return nil
}
