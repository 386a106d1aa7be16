package up

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/apply"
	"homelab/lab/bridge"
	"homelab/lab/engine"
	"homelab/lab/forge"
	"homelab/lab/gate"
)

func (r *run) doForge(ctx context.Context, s lab.Step, p lab.Progress) (apply.Outcome, error) {
	spec := forge.Spec{Writer: r.writes(), Runner: r.Runner}
	var err error
	if spec.Gate, err = r.image(ctx, gate.Component, p); err == nil {
		spec.Image, err = r.loadImage(ctx, imageGitea, p)
	}
	if err != nil {
		return apply.Outcome{}, err
	}
	if err := r.Forge.Start(ctx, spec, r.Ports.Forge, p); err != nil {
		return apply.Outcome{}, err
	}
	return apply.Outcome{Detail: r.ForgeURL(), Changes: []string{s.Reason}}, nil
}

func (r *run) doEngine(ctx context.Context, s lab.Step, p lab.Progress) (apply.Outcome, error) {
	n := r.engineChart()
	chart, err := r.Supply.Chart(ctx, n.chart, n.version, p)
	if err != nil {
		return apply.Outcome{}, err
	}
	c := r.Estate.Hub()
	var e engine.Installer
	if s.Cluster == "" {
		e, err = r.Engine()
	} else {
		c, _ = r.Estate.Cluster(s.Cluster)
		e, err = r.engineOf(s.Cluster)
	}
	if err != nil {
		return apply.Outcome{}, err
	}
	changed, err := e.Install(ctx, chart, r.values(c), p)
	if err != nil {
		return apply.Outcome{}, err
	}
	if s.Action == lab.ActionUpdate { // its comparisons were made with another version or other values
		r.invalidate(s.Cluster, time.Now())
	}
	out := apply.Outcome{Detail: r.Definition.Title + " " + chart.Version}
	if changed || s.Action == lab.ActionRepair {
		out.Changes = []string{s.Reason}
	}
	return out, nil
}

// doEstate fills the forge. The working tree is pushed last, so that a killed run is recognized as unfinished.
func (r *run) doEstate(ctx context.Context, _ lab.Step, p lab.Progress) (apply.Outcome, error) {
	if err := r.mayDelete(ctx, &r.options.Deleting, p, nil); err != nil { // the forge did not answer before
		return apply.Outcome{}, err
	}
	var charts []lab.Chart
	for _, n := range r.addonCharts() {
		chart, err := r.Supply.Chart(ctx, n.chart, n.version, p)
		if err != nil {
			return apply.Outcome{}, err
		}
		charts = append(charts, chart)
	}
	p("publishing charts")
	changes, err := r.Forge.PublishCharts(ctx, charts)
	if err != nil {
		return apply.Outcome{}, err
	}
	url, also := r.webhookOf(bridge.Estate)
	hooked, err := r.Forge.EnsureWebhook(ctx, url, r.Creds.WebhookSecret, also...)
	if err != nil {
		return apply.Outcome{}, err
	}
	if hooked {
		changes = append(changes, "webhook to "+r.Definition.Title)
	}
	if err := r.guard(ctx); err != nil {
		return apply.Outcome{}, err
	}
	mirrored, kept, err := r.pushMirrors(ctx, p)
	if err != nil {
		return apply.Outcome{}, err
	}
	changes = append(changes, mirrored...)
	p("pushing the working tree")
	pushed, err := r.Forge.Push(ctx, r.Tree(), "estate: lab up")
	if err != nil {
		return apply.Outcome{}, err
	}
	r.commit = pushed.Commit
	changes = append(changes, pushed.Changed...)
	// Push fails rather than drop commits, so the working tree now has all commits of the forge.
	if err := r.recordForge(pushed.Commit, &Seen{}); err != nil {
		return apply.Outcome{}, err
	}
	detail := "commit " + lab.Abbreviate(pushed.Commit)
	if len(kept) > 0 {
		detail += ", kept as pushed by others: " + strings.Join(kept, ", ")
	}
	return apply.Outcome{Detail: detail, Changes: changes}, nil
}

// guard keeps a running engine from syncing what would replace it, which is about to be pushed.
func (r *run) guard(ctx context.Context) error {
	if !r.seen.Engine.Installed {
		return nil
	}
	root, err := r.root()
	if err != nil || len(root.Replaces) == 0 {
		return err
	}
	e, err := r.Engine()
	if err != nil {
		return err
	}
	if g, ok := e.(engine.Guard); ok {
		return g.Guard(ctx, root)
	}
	return nil
}

// pushMirrors pushes the repositories besides the estate to their mirrors. kept are branches and tags that were left as others pushed them.
func (r *run) pushMirrors(ctx context.Context, p lab.Progress) (changes, kept []string, err error) {
	for _, m := range r.mirrors() {
		p("pushing " + m.Name)
		url, also := r.webhookOf(m.Name)
		res, err := r.Forge.Mirror(ctx, m, url, r.Creds.WebhookSecret, also...)
		if err != nil {
			return changes, kept, err
		}
		for _, ref := range res.Kept {
			kept = append(kept, m.Name+"/"+ref)
		}
		for _, c := range res.Changed {
			changes = append(changes, m.Name+"/"+c)
		}
		r.heads[m.Name] = res.Commit
	}
	return changes, kept, nil
}

func (r *run) doBridge(ctx context.Context, s lab.Step, p lab.Progress) (apply.Outcome, error) {
	e, err := r.Engine()
	if err != nil {
		return apply.Outcome{}, err
	}
	if s.Action == lab.ActionDelete {
		if !r.options.Prune {
			return apply.Outcome{}, fmt.Errorf("cluster %s: its removal was not requested", s.Cluster)
		}
		seen := r.seen.Clusters[s.Cluster]
		d := engine.Departure{Cluster: s.Cluster, LivesOn: seen.Attached}
		if seen.Attached && !seen.Answers {
			return apply.Outcome{}, unreachableError(seen, "make it reachable and run lab up --prune again")
		}
		if seen.Ready {
			if d.Spoke, err = r.Clusters.RESTConfig(s.Cluster); err != nil {
				return apply.Outcome{}, err
			}
		}
		changes, err := e.Unregister(ctx, d, p)
		return apply.Outcome{Detail: "forgotten", Changes: append([]string{s.Reason}, changes...)}, err
	}
	reg, err := r.registration(s.Cluster)
	if err != nil {
		return apply.Outcome{}, err
	}
	var spoke *rest.Config // for the credentials of the hub's engine; nil for the hub itself
	if s.Cluster != r.hubName() {
		if spoke, err = r.Clusters.RESTConfig(s.Cluster); err != nil {
			return apply.Outcome{}, err
		}
	}
	var made []string
	if c, _ := r.Estate.Cluster(s.Cluster); len(c.Namespaces) > 0 {
		if made, err = r.Clusters.EnsureNamespaces(ctx, s.Cluster, c.Namespaces, p); err != nil {
			return apply.Outcome{}, err
		}
	}
	changes, err := e.Register(ctx, reg, spoke)
	if err != nil {
		return apply.Outcome{}, err
	}
	for _, ns := range made {
		changes = append(changes, "namespace "+ns)
	}
	return apply.Outcome{Detail: Summary(changes), Changes: changes}, nil
}

// doAddons applies the root application and waits until all applications below it are in sync and healthy.
func (r *run) doAddons(ctx context.Context, s lab.Step, p lab.Progress) (apply.Outcome, error) {
	e, err := r.Engine()
	if err != nil {
		return apply.Outcome{}, err
	}
	repositories, err := r.repositories()
	if err != nil {
		return apply.Outcome{}, err
	}
	changes, err := e.ApplyRepositories(ctx, repositories)
	if err != nil {
		return apply.Outcome{}, err
	}
	root, err := r.root()
	if err != nil {
		return apply.Outcome{}, err
	}
	applied, err := e.ApplyRoot(ctx, root)
	if err != nil {
		return apply.Outcome{}, err
	}
	if applied {
		changes = append(changes, "root application")
	}
	ctx, moved, cancel := lab.Patient(ctx, r.options.Timeout)
	defer cancel()
	left := r.leftOut()
	apps, err := e.WaitConverged(ctx, engine.Want{
		Revision: r.commit, Heads: r.Lab.heads(r.commit, r.heads), Clusters: r.only, Since: r.lastStarts(), Expected: r.expected, Gone: r.gone, LeftOut: slices.Collect(maps.Keys(left)), Doubts: r.doubts(), Changed: true, Moved: moved,
	}, p)
	var failed *lab.Error
	if errors.As(err, &failed) {
		if why := (lab.OutOfPatience{}); errors.As(context.Cause(ctx), &why) {
			failed.Message += ", " + why.Error()
		}
		for _, a := range apps {
			if doubt := r.doubts()[a.Name]; doubt != "" && !a.Converged() {
				failed.Details = append(failed.Details, a.Name+": "+doubt)
			}
		}
	}
	if err != nil {
		return apply.Outcome{}, err
	}
	if len(changes) == 0 {
		changes = []string{s.Reason}
	}
	apps = slices.DeleteFunc(apps, func(a lab.Application) bool { return left[a.Name] != "" })
	return apply.Outcome{Detail: fmt.Sprintf("%d in sync", len(apps)), Changes: changes}, nil
}
