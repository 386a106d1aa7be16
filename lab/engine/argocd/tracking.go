package argocd

import (
	"cmp"
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab/engine/kube"
	"homelab/lab/engine/survey"
)

// tracking returns how Argo CD tracks with the settings that its hub has now. What another method left on an object does not count: Argo CD no longer knows that object
// (GetAppName in argo-cd's util/argo).
func tracking(ctx context.Context, hub kube.Clients, namespace string) (survey.Tracking, error) {
	settings, err := hub.Dynamic.Resource(configMaps).Namespace(namespace).Get(ctx, "argocd-cm", metav1.GetOptions{})
	if err != nil {
		return survey.Tracking{}, err
	}
	data, _, _ := unstructured.NestedStringMap(settings.Object, "data")
	if data["application.resourceTrackingMethod"] != "label" { // with both, the annotation decides
		t := survey.Tracking{Own: []string{trackingID}}
		if id := data["installationID"]; id != "" {
			t.Mark = "argocd.argoproj.io/installation-id=" + id
		}
		return t, nil
	}
	label := cmp.Or(data["application.instanceLabelKey"], "app.kubernetes.io/instance")
	return survey.Tracking{Label: label, Namer: schema.GroupKind{Group: applications.Group, Kind: "Application"}}, nil
}
