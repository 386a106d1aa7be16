package argocd

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab/engine/kube"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// contests returns the Applications of other Argo CDs in a cluster that deploy to it under one of names, as NAMESPACE/NAME. Unless its argocd-cm sets an
// installationID, such an Argo CD takes every object that names one of its Applications for its own, and prunes it (getAppInstanceValue in argo-cd's util/argo).
// server is the cluster's address.
func contests(ctx context.Context, c kube.Clients, server string, names []string) ([]string, error) {
	theirs, err := c.Dynamic.Resource(applications).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil // no Argo CD
	}
	if err != nil {
		return nil, err
	}
	var found []string
	for i := range theirs.Items {
		app := &theirs.Items[i]
		to, _, _ := unstructured.NestedStringMap(app.Object, "spec", "destination")
		if !slices.Contains(names, app.GetName()) || to["name"] != "in-cluster" && to["server"] != InCluster && to["server"] != server {
			continue
		}
		settings, err := c.Dynamic.Resource(configMaps).Namespace(app.GetNamespace()).Get(ctx, "argocd-cm", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue // of an Application outside of Argo CD's namespace, objects name both
		}
		if err != nil {
			return nil, err
		}
		if id, _, _ := unstructured.NestedString(settings.Object, "data", "installationID"); id == "" {
			found = append(found, app.GetNamespace()+"/"+app.GetName())
		}
	}
	return found, nil
}
