package argocd

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab"
	"homelab/lab/engine"
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

// Behind names the applications, the root among them, that Argo CD last compared with another commit of the estate than revision.
func (a *ArgoCD) Behind(ctx context.Context, revision string) ([]string, error) {
	apps, err := a.list(ctx)
	if err != nil {
		return nil, err
	}
	root := slices.IndexFunc(apps, application.root)
	if root < 0 {
		return nil, nil
	}
	estate := estateSource(apps[root])
	var names []string
	for _, app := range apps {
		if (app.root() || app.generated()) && lags(app, engine.Want{Revision: revision}, estate) != "" {
			names = append(names, app.Metadata.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}
