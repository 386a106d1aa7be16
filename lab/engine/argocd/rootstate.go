package argocd

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"homelab/lab/engine"
)

// Snapshot reads Argo CD's state once. It is empty before Argo CD's kinds are installed.
func (a *ArgoCD) Snapshot(ctx context.Context) (engine.Snapshot, error) {
	s := engine.Snapshot{Behind: func(engine.Want, []engine.Registered) []string { return nil }}
	v, err := a.readView(ctx)
	if apierrors.IsNotFound(err) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.Applications = a.summarise(values(v.apps))
	if s.Root = v.hasRoot(); !s.Root {
		return s, nil
	}
	estate := v.estate()
	for _, app := range append(v.roots(), values(v.apps)...) { // roots may only read other repositories, or be ApplicationSets
		if s.Revision = estate.commit(app); s.Revision != "" {
			break
		}
	}
	s.Settled = !slices.ContainsFunc(v.roots(), func(root application) bool {
		at := estate.commit(root)
		return root.Status.Sync.Status != "Synced" || !root.healthy(engine.Want{}) || !root.compared() || at != "" && at != s.Revision
	})
	s.Behind = func(want engine.Want, registrations []engine.Registered) []string {
		v := v
		v.since = validSince(registrations, want)
		var names []string
		for _, app := range v.relevant(want) {
			_, waiting := v.unconverged(app, want, estate)
			if v.stale(app, want, estate) || waiting && (app.root() || app.Status.Sync.Status == "Synced" && app.healthy(want)) {
				names = append(names, app.Metadata.Name)
			}
		}
		return names
	}
	return s, nil
}
