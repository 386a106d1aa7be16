package live

import (
	"context"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/argocd"
	"homelab/lab/scenario"
)

// Engine is Argo CD in the words of scenarios.
type Engine struct{ ArgoCD *argocd.ArgoCD }

// Watch tells of applications.
func (e Engine) Watch(ctx context.Context, seen func(scenario.Application), ready func()) error {
	return e.ArgoCD.Watch(ctx, func(a lab.Application, o argocd.Observed) {
		seen(scenario.Application{Application: a, Gone: o.Gone, Heals: o.SelfHeal, Definition: o.Definition})
	}, ready)
}

// Registration is what Argo CD knows of a cluster.
func (e Engine) Registration(ctx context.Context, cluster string) (scenario.Marks, error) {
	r, err := e.ArgoCD.Registration(ctx, cluster)
	return scenario.Marks{Labels: pointers(r.Labels), Annotations: pointers(r.Annotations)}, err
}

// Mark changes that.
func (e Engine) Mark(ctx context.Context, cluster string, m scenario.Marks) error {
	return e.ArgoCD.Mark(ctx, cluster, engine.Marks{Labels: m.Labels, Annotations: m.Annotations})
}

// Refresh asks Argo CD to look at Git.
func (e Engine) Refresh(ctx context.Context) error { return e.ArgoCD.Refresh(ctx) }

func pointers(m map[string]string) map[string]*string {
	out := make(map[string]*string, len(m))
	for k, v := range m {
		out[k] = &v
	}
	return out
}
