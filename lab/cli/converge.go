package cli

import (
	"context"
	"time"

	"homelab/lab/cli/audience"
	"homelab/lab/present"
	"homelab/lab/scenario"
	"homelab/lab/up"
)

// converge reconciles the lab with the estate, and shows the result.
func (p *program) converge(ctx context.Context, l *instance, o up.Options, began time.Time) error {
	name := l.ws.Name
	o.PruneBy = l.ws.OnEstate("lab up --prune")
	clusters := len(l.core.Estate.Clusters)
	if o.Others {
		clusters = len(o.Clusters)
	}
	out, err := l.core.Follow(ctx, o, audience.Run{UI: p.ui, Workspace: l.ws, Lab: l.core, Supply: l.with.supply, Clusters: clusters})
	if err != nil {
		return err
	}
	if out.Idle {
		p.ui.UpToDate(name, out.Clusters, out.Applications, time.Since(began))
		return p.ui.Up(name, nil, time.Since(began), nil)
	}
	if err := p.summary(ctx, l, out, time.Since(began)); err != nil {
		return err
	}
	return p.ui.Up(name, out.Changed(), time.Since(began), out.Result.Steps)
}

// summary prints the result of a run.
func (p *program) summary(ctx context.Context, l *instance, out up.Outcome, took time.Duration) error {
	if p.ui.WantsJSON() {
		return nil
	}
	st, err := l.core.Status(ctx)
	if err != nil {
		return err
	}
	stories, _ := scenario.List(l.core.Estate.FS) // only for a hint
	last := present.Summary(l.core, l.ws, out, st, stories)
	last.Took = took
	p.ui.Summary(last)
	return nil
}
