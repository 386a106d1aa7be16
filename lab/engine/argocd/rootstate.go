package argocd

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"homelab/lab"
	"homelab/lab/engine"
)

// Standing is what Argo CD has of the lab, from one look at its Applications.
type Standing struct {
	Applications []lab.Application
	Root         bool   // the lab's root application is there
	Revision     string // commit that it was last compared with; empty before the first time

	apps   []application
	estate source
}

// Standing looks once. Before Argo CD's own kinds are there it is empty.
func (a *ArgoCD) Standing(ctx context.Context) (Standing, error) {
	apps, err := a.list(ctx)
	if apierrors.IsNotFound(err) {
		return Standing{}, nil
	}
	if err != nil {
		return Standing{}, err
	}
	s := Standing{Applications: a.summarise(apps), apps: apps}
	at := slices.IndexFunc(apps, func(app application) bool { return app.root() && app.Metadata.Labels[lab.LabelName] == a.lab })
	if at >= 0 {
		s.Root, s.Revision, s.estate = true, apps[at].revision(), estateSource(apps[at])
	}
	return s, nil
}

// Behind names the applications, the root among them, that were last compared with another commit of the estate than revision. Without a root there are none.
func (s Standing) Behind(revision string) []string {
	var names []string
	for _, app := range s.apps {
		if (app.root() || app.generated()) && lags(app, engine.Want{Revision: revision}, s.estate) != "" {
			names = append(names, app.Metadata.Name)
		}
	}
	slices.Sort(names)
	return names
}
