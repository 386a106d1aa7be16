package flux

import (
	"context"
	"errors"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/flux/reconciliation"
	"homelab/lab/flux"
)

// look reads Flux's objects.
func (f *Flux) look(ctx context.Context) (reconciliation.View, error) {
	scope, err := f.scope(ctx)
	if err != nil {
		return reconciliation.View{}, err
	}
	return f.lookAt(ctx, scope)
}

// lookAt is look with a known scope.
func (f *Flux) lookAt(ctx context.Context, scope flux.Scope) (reconciliation.View, error) {
	return reconciliation.Read(ctx, f.hub.Dynamic, f.lab, scope)
}

// Applications lists the applications of all clusters.
func (f *Flux) Applications(ctx context.Context) ([]lab.Application, error) {
	v, err := f.look(ctx)
	return v.Applications(), err
}

// Snapshot observes the lab once.
func (f *Flux) Snapshot(ctx context.Context) (engine.Snapshot, error) {
	s, err := f.snapshots(ctx, engine.Want{})
	if err != nil {
		return engine.Snapshot{}, err
	}
	return s.standing(), nil
}

// Refresh makes Flux poll Git.
func (f *Flux) Refresh(ctx context.Context) error {
	v, err := f.look(ctx)
	if err != nil {
		return err
	}
	return reconciliation.Refresh(ctx, f.hub.Dynamic, v)
}

// askers maps clusters to their askers.
type askers map[string]*reconciliation.Asker

// add creates an asker for each cluster that answers for the first time.
func (a askers) add(s snapshots, want engine.Want) {
	for _, one := range s {
		if one.silent == nil && a[one.cluster] == nil {
			a[one.cluster] = reconciliation.NewAsker(one.flux.hub.Dynamic, want)
		}
	}
}

// look sends all due requests. A failure in one cluster does not affect the others.
func (a askers) look(ctx context.Context, s snapshots) error {
	var failed []error
	for _, one := range s {
		if one.silent == nil {
			a[one.cluster].Client = one.flux.hub.Dynamic
			failed = append(failed, a[one.cluster].LookWithCharts(ctx, one.View))
		}
	}
	return errors.Join(failed...)
}
