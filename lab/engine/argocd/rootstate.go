package argocd

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"homelab/lab/engine"
)

// Standing looks once. Before Argo CD's own kinds are there it is empty.
func (a *ArgoCD) Standing(ctx context.Context) (engine.Standing, error) {
	s := engine.Standing{Behind: func(engine.Want, []engine.Registered) []string { return nil }}
	v, err := a.list(ctx)
	if apierrors.IsNotFound(err) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.Applications = a.summarise(values(v.apps))
	root, has := v.root()
	if !has {
		return s, nil
	}
	s.Root, s.Revision = true, root.revision()
	s.Settled = root.Status.Sync.Status == "Synced" && root.Status.Health.Status == "Healthy" && root.compared()
	estate := estateSource(root)
	s.Behind = func(want engine.Want, registrations []engine.Registered) []string {
		v := v
		v.since = sinces(registrations, want)
		var names []string
		for _, app := range v.relevant(want) {
			if v.old(app, want, estate) {
				names = append(names, app.Metadata.Name)
			}
		}
		return names
	}
	return s, nil
}
