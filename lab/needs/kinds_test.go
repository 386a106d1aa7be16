package needs

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestServes(t *testing.T) {
	for of, want := range map[schema.GroupVersionKind][2]bool{
		{Version: "v1", Kind: "ConfigMap"}:                                                         {true, true},
		{Group: "apps", Version: "v1", Kind: "Deployment"}:                                         {true, true},
		{Group: "policy", Version: "v1beta1", Kind: "PodDisruptionBudget"}:                         {false, true},
		{Group: "extensions", Version: "v1beta1", Kind: "Ingress"}:                                 {false, true},
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}:           {true, true},
		{Group: "apiextensions.k8s.io", Version: "v1beta1", Kind: "CustomResourceDefinition"}:      {false, true},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicy"}:    {true, true},
		{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}:                     {false, false},
		{Group: "autoscaling", Version: "v2beta2", Kind: "HorizontalPodAutoscaler"}:                {false, true},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"}:            {true, true},
		{Group: "settings.k8s.io", Version: "v1alpha1", Kind: "PodPreset"}:                         {false, false},
		{Group: "resource.k8s.io", Version: "v1beta1", Kind: "ResourceClaim"}:                      {false, true},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1beta3", Kind: "FlowSchema"}:            {false, true},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Kind: "PriorityLevelConfiguration"}: {true, true},
	} {
		if served, own := Serves(of); served != want[0] || own != want[1] {
			t.Errorf("%s: %t, %t, want %v", of, served, own, want)
		}
	}
}
