package cli

import (
	"context"
	"time"

	"homelab/lab"
	"homelab/lab/cli/audience"
	"homelab/lab/registry"
	"homelab/lab/scenario"
	"homelab/lab/ui"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

// follow reconciles the lab with the estate.
func (p *program) follow(ctx context.Context, l *instance, o up.Options) (up.Outcome, error) {
	o.PruneBy = l.ws.OnEstate("lab up --prune")
	clusters := len(l.core.Estate.Clusters)
	if o.Others {
		clusters = len(o.Clusters)
	}
	return l.core.Follow(ctx, o, audience.Run{UI: p.ui, Workspace: l.ws, Lab: l.core, Supply: l.with.supply, Clusters: clusters})
}

// showOutcome shows the result of a run.
func (p *program) showOutcome(ctx context.Context, l *instance, out up.Outcome, began time.Time) error {
	name := l.ws.Name
	if out.Idle {
		p.ui.UpToDate(name, out.Clusters, out.Applications, time.Since(began))
		return p.ui.Up(name, nil, time.Since(began), nil, ui.Upgrade{})
	}
	if err := p.summary(ctx, l, out, time.Since(began)); err != nil {
		return err
	}
	return p.ui.Up(name, out.Changed(), time.Since(began), out.Result.Steps, upgradeOf(out.Upgrade))
}

func upgradeOf(u up.Upgrade) ui.Upgrade {
	return ui.Upgrade{
		From: u.From, To: u.To, Objects: u.Objects, Pods: u.Pods, OutOfSync: u.OutOfSync, Gone: u.Gone, New: u.New, Replaced: u.Replaced, Deleted: u.Deleted,
		Orphaned: u.Orphaned, Retracked: u.Retracked, Restarted: u.Restarted, Unknown: u.Unknown,
	}
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
	last := lastScreen(l.core, l.ws, out, st, stories)
	last.Took = took
	p.ui.Summary(last)
	return nil
}

// lastScreen returns the last screen of a run with changes.
func lastScreen(l *up.Lab, ws *workspace.Workspace, out up.Outcome, st up.Status, stories []string) ui.Summary {
	times := map[string]time.Duration{}
	for i, s := range out.Result.Steps {
		times[out.Steps[i].ID] = time.Duration(s.Seconds * float64(time.Second))
	}
	s := ui.Summary{
		Lab: ws.Name, Longest: ui.LongestWay(out.Steps, times), Clusters: ui.StatusClusters(st.Clusters), Applications: st.Applications, Next: ws.Next(l.Estate, stories),
	}
	for _, a := range l.Estate.Addons {
		if !a.Leads {
			s.Addons = append(s.Addons, a.Name)
		}
	}
	titles := map[string]string{string(l.Definition.Type): l.Definition.Title, "forge": "forge", registry.Name: registry.Name}
	for _, c := range credentials(l) {
		s.Endpoints = append(s.Endpoints, ui.Entry{Name: titles[c.Service], Text: c.URL, Note: "user " + c.User + ", password: " + ws.Command("lab creds "+lab.Quote(c.Service))})
	}
	if at := doorURL(l.Dir, ""); at != "" {
		note := "lists them; authority: " + ws.Command("lab ca")
		if text, err := certificate(ws); err == nil && systemStore().outdated(ws.Name, text) {
			note = "lists them; this system trusts a former authority: sudo " + ws.Command("lab ca trust")
		}
		s.Endpoints = append(s.Endpoints, ui.Entry{Name: "names", Text: at, Note: note})
	}
	s.Endpoints = append(s.Endpoints, ui.Entry{Name: "kubectl", Text: "export KUBECONFIG=$(" + ws.Command("lab kubeconfig") + ")"})
	return s
}
