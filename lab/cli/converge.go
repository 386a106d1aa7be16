package cli

import (
	"context"
	"fmt"
	"time"

	"homelab/lab"
	"homelab/lab/present"
	"homelab/lab/scenario"
	"homelab/lab/ui"
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
	out, err := l.core.Follow(ctx, o, audience{ui: p.ui, lab: l, clusters: clusters})
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

// audience implements up.Audience with the UI.
type audience struct {
	ui       *ui.UI
	lab      *instance
	clusters int
}

// Say implements up.Audience.
func (a audience) Say(line string) { a.ui.Say(line) }

// Ask implements up.Audience.
func (a audience) Ask(ctx context.Context, question string, loses []string) (bool, error) {
	return a.ui.Ask(ctx, question, loses)
}

// Begin prints the header of a run: "lab homelab · ENGINE · 4 clusters · images from the registry".
func (a audience) Begin(seen *up.Seen, steps []lab.Step) (func(lab.Event), func()) {
	u, l := a.ui, a.lab
	if l.ws.Estate.Dir == "" && l.ws.Record.Estate == "" {
		u.Say("the estate is the built-in one; lab init DIR writes it to a folder")
	}
	if len(seen.Missing) > 0 {
		u.Say(l.with.supply.Why())
	}
	u.Begin(fmt.Sprintf("lab %s · %s · %s · %s", l.ws.Name, l.core.Definition.Type, ui.Count(a.clusters, "cluster"), present.Origin(l.with.supply.Origin())), steps)
	return u.Event, u.End
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
