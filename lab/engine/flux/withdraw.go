package flux

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine/flux/reconciliation"
)

// Withdraw removes from clusters everything that Flux applied, including its own access, and describes what stays. The roots are suspended and the other layers
// removed first, so that nothing is applied any more; ApplyRoot and Register revert that.
func (f *Flux) Withdraw(ctx context.Context, spokes map[string]*rest.Config, p lab.Progress) ([]string, error) {
	if err := f.suspend(ctx, p); err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(spokes))
	v, err := f.look(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.noteNamespaces(ctx, v); err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := f.takeNote(ctx, name, spokes[name]); err != nil {
			return nil, fmt.Errorf("cluster %s: %w", name, err)
		}
	}
	left, err := f.empty(ctx, names, withdrawWithin, p)
	if err != nil {
		return nil, err
	}
	if len(left) > 0 {
		return nil, notWithdrawn(left)
	}
	var stays []string
	for _, name := range names {
		kept, err := f.removeAccess(ctx, name, spokes[name], p)
		stays = append(stays, kept...)
		if err != nil {
			return stays, fmt.Errorf("cluster %s: %w", name, err)
		}
	}
	return stays, nil
}

// suspend suspends the roots, and deletes the other layers without their objects.
func (f *Flux) suspend(ctx context.Context, p lab.Progress) error {
	v, err := f.look(ctx)
	if err == nil {
		err = v.NoteAll(ctx, f.hub.Dynamic)
	}
	if err != nil {
		return err
	}
	for end, reported := time.Now().Add(readWithin), false; ; {
		v, err := f.look(ctx)
		if err != nil {
			return err
		}
		atWork := false
		for _, k := range slices.Concat(v.Layers, v.Parents()) {
			switch {
			case !v.IsRoot(k) && k.Spec.DeletionPolicy != kustomizev1.DeletionPolicyOrphan:
				err = f.patch(ctx, kustomizations, &k, `{"spec":{"deletionPolicy":"Orphan"}}`)
				atWork = true
			case !v.IsRoot(k) && k.DeletionTimestamp == nil:
				err = f.delete(ctx, kustomizations, k.Namespace, k.Name)
				atWork = true
			case v.IsRoot(k) && !k.Spec.Suspend:
				err = f.patch(ctx, kustomizations, &k, `{"spec":{"suspend":true}}`)
				atWork = true
			default:
				atWork = atWork || reconciliation.Busy(k.Status.Conditions) || !v.IsRoot(k) // a running reconciliation still applies
			}
			if err != nil {
				return err
			}
		}
		if !atWork || time.Now().After(end) {
			return nil
		}
		if !reported {
			reported = true
			p("suspending the roots")
		}
		if err := lab.Sleep(ctx, lookEvery); err != nil {
			return err
		}
	}
}
