package kube

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestTracesManagers(t *testing.T) {
	traces := Traces{Managers: []string{"gitops-controller"}}
	for name, tc := range map[string]struct{ have, want []string }{
		"none":   {[]string{"ann"}, nil},
		"shared": {[]string{"gitops-controller", "ann", "gitops-controller"}, []string{"ann"}},
		"alone":  {[]string{"gitops-controller"}, []string{""}}, // an empty list would be ignored
	} {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetResourceVersion("7")
		var have []metav1.ManagedFieldsEntry
		for _, m := range tc.have {
			have = append(have, metav1.ManagedFieldsEntry{Manager: m, Operation: metav1.ManagedFieldsOperationUpdate})
		}
		o.SetManagedFields(have)
		patch := traces.patch(o, false)
		if tc.want == nil {
			if patch != nil {
				t.Errorf("%s: %v", name, patch)
			}
			continue
		}
		var got []string
		for _, e := range patch["managedFields"].([]metav1.ManagedFieldsEntry) {
			got = append(got, e.Manager)
		}
		if !slices.Equal(got, tc.want) || patch["resourceVersion"] != "7" || len(patch) != 2 {
			t.Errorf("%s: %v", name, patch)
		}
	}
}
