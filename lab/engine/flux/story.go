package flux

import (
	"context"
	"fmt"
	"maps"
	"slices"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
	"homelab/lab/flux"
)

// Watch reports every application, calls ready, and then reports each change in order until ctx ends.
func (f *Flux) Watch(ctx context.Context, seen func(lab.Application, engine.Observed), ready func()) error {
	return watch(ctx, f.snapshots, seen, ready)
}

// watch reports the applications of the scenes returned by see. Those of a cluster that does not answer are unchanged.
func watch(ctx context.Context, see func(context.Context, engine.Want) (snapshots, error), seen func(lab.Application, engine.Observed), ready func()) error {
	type state struct {
		lab.Application
		engine.Observed
	}
	known := map[string]state{}
	for first := true; ; {
		if s, err := see(ctx, engine.Want{}); err == nil {
			for _, now := range s.applications() {
				k, one, _ := s.app(now.Name)
				now := state{now, engine.Observed{SelfHeal: one.Heals(k), Definition: definition(k)}}
				if old, had := known[now.Name]; !had || old != now {
					known[now.Name] = now
					seen(now.Application, now.Observed)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(known)) {
				last := known[name]
				if _, _, there := s.app(name); !there && !slices.ContainsFunc(s, func(one snapshot) bool { return one.silent != nil && one.cluster == last.Cluster }) {
					last.Gone = true
					seen(last.Application, last.Observed)
					delete(known, name)
				}
			}
			if first {
				first = false
				ready()
			}
		}
		if lab.Sleep(ctx, lookEvery) != nil {
			return nil
		}
	}
}

// definition returns a digest of an application's spec.
func definition(k kustomizev1.Kustomization) string {
	return kube.Digest(k.Spec, k.Labels, k.Finalizers)
}

// Registration returns the labels and annotations that lab set on a cluster's registration.
func (f *Flux) Registration(ctx context.Context, cluster string) (engine.Registered, error) {
	o, err := f.known(ctx, cluster)
	if err != nil {
		return engine.Registered{}, err
	}
	return f.registered(o), nil
}

// known returns the registration of a cluster, or an error if there is none.
func (f *Flux) known(ctx context.Context, cluster string) (*unstructured.Unstructured, error) {
	o, err := f.registrationSecret(ctx, cluster)
	return kube.Known(cluster, o, err)
}

// Mark changes labels and annotations of a cluster's registration, as Register does. The cluster's variables follow. A key set by someone else is an error.
func (f *Flux) Mark(ctx context.Context, cluster string, m engine.Marks) error {
	o, err := f.known(ctx, cluster)
	if err != nil {
		return err
	}
	meta, err := kube.Marked(o, m.Labels, m.Annotations)
	if err != nil {
		return fmt.Errorf("cluster %s: %w", cluster, err)
	}
	data := map[string]string{}
	if config := kube.SecretField(o, "value"); config != "" {
		data["value"] = config
	}
	_, after, err := kube.Apply(ctx, f.hub.Dynamic, kube.Secrets, kube.Secret(meta, data))
	if err != nil {
		return fmt.Errorf("cluster %s: %w", cluster, err)
	}
	now := f.registered(after)
	_, err = f.applyVars(ctx, cluster, flux.Variables(now.Labels, now.Annotations))
	return kube.Wrap("cluster "+cluster, err)
}
