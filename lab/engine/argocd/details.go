package argocd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/words"
	"homelab/lab/engine/workload"
)

// describeWithin bounds the queries to spokes after a failed wait, so that an unreachable one does not delay the error.
const describeWithin = 10 * time.Second

// linesEach bounds the lines per application.
const linesEach = 6

// notConverged returns the error of a failed wait, with the reason for each application down to its pods if reachable.
func (a *ArgoCD) notConverged(ctx context.Context, v view, want engine.Want, pending []engine.Pending, waited time.Duration, watch error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), describeWithin)
	defer cancel()
	var rows []words.Row
	for _, p := range mergeMissing(pending) {
		rows = append(rows, words.Row{Name: p.Application, State: p.State(), Reasons: a.explain(asking, v.apps[p.Application], p)})
	}
	return engine.NotConverged(headline(v, want, pending, waited), words.Table(rows), watch)
}

// mergeFrom is the number of missing applications from which on they are reported in one line, as they share one reason.
const mergeFrom = 4

// mergeMissing merges applications that do not exist yet into one line.
func mergeMissing(pending []engine.Pending) []engine.Pending {
	var names []string
	for _, p := range pending {
		if p.Sync == "" && p.Health == "" {
			names = append(names, p.Application)
		}
	}
	if len(names) < mergeFrom {
		return pending
	}
	out := slices.DeleteFunc(slices.Clone(pending), func(p engine.Pending) bool { return slices.Contains(names, p.Application) })
	return append(out, engine.Pending{
		Application: fmt.Sprintf("%d more", len(names)), Reason: "are not generated yet: " + strings.Join(names, ", "),
	})
}

// headline returns the error message.
func headline(v view, want engine.Want, pending []engine.Pending, waited time.Duration) string {
	n := engine.Tally{Total: v.total(want)}
	for _, p := range pending {
		if p.Application == noRoot {
			return fmt.Sprintf("the %s does not exist after %s", noRoot, lab.WholeSeconds(waited))
		}
		if v.isRoot(p.Application) && p.Sync != "Synced" {
			return fmt.Sprintf("the root application %s is not in sync after %s", p.Application, lab.WholeSeconds(waited))
		}
		if v.isRoot(p.Application) || strings.HasPrefix(p.Application, "applicationset ") {
			continue
		}
		n.Bad++
		if app, has := v.apps[p.Application]; has && (app.terminating() || slices.Contains(want.Gone, app.Metadata.Name)) {
			n.Staying++
			continue
		}
		if p.Health != "" && p.Health != "Healthy" {
			n.Unhealthy++
		}
	}
	if n.Bad == 0 {
		what := "argo cd has not converged"
		if len(pending) > 0 {
			what = pending[0].Application + " has not converged"
		}
		if len(pending) > 0 && strings.HasPrefix(pending[0].Application, "applicationset ") && pending[0].State() == "Degraded" {
			return pending[0].Application + " cannot generate its applications"
		}
		return what + " after " + lab.WholeSeconds(waited)
	}
	return n.After(waited)
}

// explain returns why one application has not converged, most specific first.
func (a *ArgoCD) explain(ctx context.Context, app application, p engine.Pending) []string {
	var lines []string
	add := func(s string) {
		if s != "" && !slices.Contains(lines, s) && len(lines) < linesEach {
			lines = append(lines, s)
		}
	}
	if app.retries() { // the workloads predate the failure
		add(p.Reason)
	}
	for _, s := range a.describePods(ctx, app) {
		add(s)
	}
	for _, r := range app.unhealthy() {
		listed := slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, r.title()+":") })
		if !listed {
			add(r.trouble())
		}
	}
	if len(lines) == 0 {
		add(p.Reason)
	}
	for _, c := range app.Status.Conditions {
		if why := cause(c.Message); strings.HasSuffix(c.Type, "Error") && !strings.HasSuffix(p.Reason, why) {
			add(why)
		}
	}
	return lines
}

// describePods describes the workloads and pods of an application in its cluster: "deployment podinfo: 0 of 2 ready". It returns nothing on failure, as the
// Application has its own message.
func (a *ArgoCD) describePods(ctx context.Context, app application) []string {
	client, names := a.workloads(app)
	return workload.Describe(ctx, client, names)
}

// workloads returns the workloads of an application by namespace, and a client of its cluster; none on failure.
func (a *ArgoCD) workloads(app application) (kubernetes.Interface, map[string][]string) {
	ns := app.Spec.Destination.Namespace
	if a.reach == nil || ns == "" || len(app.Status.Resources) == 0 {
		return nil, nil
	}
	cfg, err := a.reach(a.names.cluster(app))
	if err != nil || cfg == nil {
		return nil, nil
	}
	c, err := a.connect(cfg)
	if err != nil {
		return nil, nil
	}
	byNamespace := map[string][]string{}
	for _, r := range app.Status.Resources {
		if r.Kind == "Deployment" || r.Kind == "StatefulSet" {
			n := cmp.Or(r.Namespace, ns)
			byNamespace[n] = append(byNamespace[n], r.Kind+"/"+r.Name)
		}
	}
	return c.Typed, byNamespace
}

// loop returns a container of pending applications that keeps failing, or nil.
func (a *ArgoCD) loop(ctx context.Context, v view, pending []engine.Pending, loops *workload.Loops) *workload.Loop {
	for _, p := range pending {
		if app, has := v.apps[p.Application]; has && p.Health != "Healthy" {
			client, names := a.workloads(app)
			if found := loops.Find(ctx, client, names); found != nil {
				return found
			}
		}
	}
	return nil
}
