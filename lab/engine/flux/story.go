package flux

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"

	"homelab/lab"
	"homelab/lab/engine"
)

// Watch reports every application, calls ready, and goes on reporting changes, in order, until ctx ends.
func (f *Flux) Watch(ctx context.Context, seen func(lab.Application, engine.Observed), ready func()) error {
	known := map[string]lab.Application{}
	specs := map[string]kustomizev1.Kustomization{}
	for first := true; ; first = false {
		if v, err := f.look(ctx); err == nil {
			for name, k := range v.apps {
				a := v.application(name, k)
				if old, had := known[name]; !had || old != a || definition(specs[name]) != definition(k) {
					known[name], specs[name] = a, k
					seen(a, observed(k, false))
				}
			}
			for name, a := range known {
				if _, there := v.apps[name]; !there {
					seen(a, observed(specs[name], true))
					delete(known, name)
				}
			}
			if first {
				ready()
			}
		} else {
			first = false
		}
		if lab.Sleep(ctx, lookEvery) != nil {
			return nil
		}
	}
}

func observed(k kustomizev1.Kustomization, gone bool) engine.Observed {
	return engine.Observed{SelfHeal: !k.Spec.Suspend, Gone: gone, Definition: definition(k)}
}

// definition is a digest of what is asked of an application.
func definition(k kustomizev1.Kustomization) string {
	b, err := json.Marshal([]any{k.Spec, k.Labels, k.Finalizers})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Registration returns what Flux knows of a cluster, as far as lab set it.
func (f *Flux) Registration(ctx context.Context, cluster string) (engine.Registered, error) {
	o, err := f.registrationSecret(ctx, cluster)
	if o == nil && err == nil {
		err = fmt.Errorf("cluster %s is not registered: lab up registers it", cluster)
	}
	if err != nil {
		return engine.Registered{}, err
	}
	return f.registered(o), nil
}
