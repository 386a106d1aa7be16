package argocd

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"homelab/lab"
	"homelab/lab/engine"
)

// Standing is what Argo CD has of the lab, from one look at its Applications.
type Standing struct {
	Applications []lab.Application
	Root         bool   // the lab's root application is there
	Revision     string // commit that it was last compared with; empty before the first time

	view   view
	estate source
}

// Standing looks once. Before Argo CD's own kinds are there it is empty.
func (a *ArgoCD) Standing(ctx context.Context) (Standing, error) {
	v, err := a.list(ctx)
	if apierrors.IsNotFound(err) {
		return Standing{}, nil
	}
	if err != nil {
		return Standing{}, err
	}
	s := Standing{Applications: a.summarise(values(v.apps)), view: v}
	if root, has := v.root(); has {
		s.Root, s.Revision, s.estate = true, root.revision(), estateSource(root)
	}
	return s, nil
}

// Behind names the applications that are waited for, the root among them, and that were last compared with another commit of the estate than the wanted one, or
// with another cluster than the one that is registered, as Observe tells. Without a root there are none.
func (s Standing) Behind(want engine.Want, registrations []engine.Registered) []string {
	s.view.since = sinces(registrations)
	var names []string
	for _, app := range s.view.relevant(want) {
		if s.view.old(app, want, s.estate) {
			names = append(names, app.Metadata.Name)
		}
	}
	return names
}
