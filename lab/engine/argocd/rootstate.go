package argocd

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab"
)

// RootRevision says whether the lab's root application is there, and which commit Argo CD last compared it with; empty before the first time.
func (a *ArgoCD) RootRevision(ctx context.Context) (revision string, exists bool, err error) {
	list, err := a.hub.dynamic.Resource(applications).Namespace(Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: lab.LabelName + "=" + a.lab + "," + lab.LabelPart + "=root",
	})
	if apierrors.IsNotFound(err) { // Argo CD's own kinds are not there yet
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("root application: %w", err)
	}
	if len(list.Items) == 0 {
		return "", false, nil
	}
	app, err := parseApplication(&list.Items[0])
	return app.revision(), true, err
}
