package flux

import (
	notificationv1 "github.com/fluxcd/notification-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab"
	"homelab/lab/engine/flux/reconciliation"
)

// receiverName is the name of the forge's Receiver, and of its Secret in lab's values.
const receiverName = "lab-webhook"

// webhookPath returns the path that notification-controller serves a Receiver under.
func webhookPath(secret, namespace string) string {
	r := notificationv1.Receiver{ObjectMeta: metav1.ObjectMeta{Name: receiverName, Namespace: namespace}}
	return r.GetWebhookPath(secret)
}

// receiver makes Flux read each push to the forge immediately. Gitea signs like GitHub. A push may be a chart's, so chart indices are included.
func (f *Flux) receiver() part {
	var resources []any
	for _, kind := range []string{sourcev1.GitRepositoryKind, sourcev1.HelmRepositoryKind} {
		for _, by := range [][2]string{{lab.LabelName, f.lab}, {reconciliation.FromNamespace, f.namespace}} { // lab's own objects and those from Git
			resources = append(resources, map[string]any{
				"apiVersion": sourcev1.GroupVersion.String(), "kind": kind, "name": "*", "matchLabels": map[string]any{by[0]: by[1]},
			})
		}
	}
	return part{receivers, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": notificationv1.GroupVersion.String(), "kind": notificationv1.ReceiverKind,
		"metadata": map[string]any{"name": receiverName, "namespace": f.namespace, "labels": f.labels("engine")},
		"spec": map[string]any{
			"type": notificationv1.GitHubReceiver, "secretRef": map[string]any{"name": receiverName}, "resources": resources,
		},
	}}}
}
