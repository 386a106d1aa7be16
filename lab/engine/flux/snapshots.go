package flux

import (
	"cmp"
	"context"
	"slices"
	"strings"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/flux/reconciliation"
)

// snapshot is the state of one Flux.
type snapshot struct {
	reconciliation.View
	flux          *Flux
	cluster       string // the only cluster that it manages; empty for all
	registrations []engine.Registered
	silent        error // why it did not answer
}

// snapshots are the states of all Fluxes of a lab, the hub's first.
type snapshots []snapshot

// snapshots observes a Flux that manages all clusters.
func (f *Flux) snapshots(ctx context.Context, _ engine.Want) (snapshots, error) {
	s, err := f.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return snapshots{s}, nil
}

// snapshot observes Flux once.
func (f *Flux) snapshot(ctx context.Context) (snapshot, error) {
	registrations, err := f.registrations(ctx)
	if err != nil {
		return snapshot{}, err
	}
	v, err := f.lookAt(ctx, f.scopeOf(registrations))
	return snapshot{View: v, flux: f, cluster: f.home, registrations: registrations}, err
}

// judge returns the pending objects, per Flux. With askers, unanswered objects are pending.
func (s snapshots) judge(want engine.Want, asks map[string]*reconciliation.Asker) []reconciliation.Pending {
	switch len(s) {
	case 0: // nothing was seen yet
		return reconciliation.View{}.Judge(want, nil, nil)
	case 1:
		return s[0].Judge(want, asks[s[0].cluster], s[0].registrations)
	}
	of := want
	of.Expected = nil
	var list []reconciliation.Pending
	for _, one := range s {
		if one.silent != nil {
			list = append(list, reconciliation.Pending{Pending: engine.Pending{Application: "cluster " + one.cluster, Reason: "does not answer: " + root(one.silent).Error()}, Layer: true, Silent: true})
			continue
		}
		for _, p := range one.Judge(of, asks[one.cluster], one.registrations) {
			if p.Layer {
				p.Application += " of " + one.cluster
			}
			list = append(list, p)
		}
	}
	for _, name := range slices.Sorted(slices.Values(want.Expected)) {
		if _, _, there := s.app(name); there {
			continue
		}
		reason := "is not generated yet"
		if i := slices.IndexFunc(s, func(one snapshot) bool {
			return one.silent != nil && strings.HasPrefix(name, lab.ApplicationName(one.cluster, ""))
		}); i >= 0 {
			reason = "cluster " + s[i].cluster + " does not answer"
		}
		list = append(list, reconciliation.Pending{Pending: engine.Pending{Application: name, Reason: reason}})
	}
	return list
}

// app returns an application, and the snapshot that contains it.
func (s snapshots) app(name string) (kustomizev1.Kustomization, snapshot, bool) {
	for _, one := range s {
		if k, there := one.Apps[name]; there {
			return k, one, true
		}
	}
	return kustomizev1.Kustomization{}, snapshot{}, false
}

// applications returns all applications, sorted by name.
func (s snapshots) applications() []lab.Application {
	list := []lab.Application{}
	for _, one := range s {
		list = append(list, one.Applications()...)
	}
	slices.SortFunc(list, func(x, y lab.Application) int { return cmp.Compare(x.Name, y.Name) })
	return list
}

// total returns the number of applications to wait for.
func (s snapshots) total(want engine.Want) int {
	n := 0
	for _, one := range s {
		for name, k := range one.Apps {
			if want.WaitsFor(one.ClusterOf(k)) && !slices.Contains(want.LeftOut, name) {
				n++
			}
		}
	}
	for _, name := range want.Expected {
		if _, _, there := s.app(name); !there {
			n++
		}
	}
	return n
}

// standing summarises a snapshots.
func (s snapshots) standing() engine.Snapshot {
	st := engine.Snapshot{Applications: s.applications(), Settled: true}
	for i, one := range s {
		if one.silent != nil {
			st.Silent = append(st.Silent, one.cluster)
			st.Settled = false
			continue
		}
		at, settled := one.Settled()
		if i == 0 {
			st.Root, st.Revision = one.HasRoot(), at
		}
		st.Settled = st.Settled && settled && at == st.Revision
	}
	st.Behind = func(want engine.Want, registrations []engine.Registered) []string {
		behind := []string{}
		for _, one := range s {
			if one.silent != nil || one.cluster != "" && one.cluster != s[0].cluster && !want.WaitsFor(one.cluster) {
				continue
			}
			for _, p := range one.Judge(want, nil, registrations) {
				if p.Lags {
					behind = append(behind, p.Application)
				}
			}
		}
		return behind
	}
	return st
}
