package flux

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/words"
)

const lookEvery = 500 * time.Millisecond

// WaitConverged waits until the roots are at the wanted commit and every application is as wanted. It returns the applications as last seen. If ctx's deadline
// expires first, the error is a *lab.Error with lab.ExitTimeout and the reason for each application.
func (f *Flux) WaitConverged(ctx context.Context, want engine.Want, p lab.Progress) ([]lab.Application, error) {
	start := time.Now()
	registrations, v, err := f.snapshot(ctx)
	if err == nil && !want.Changed && len(v.judge(want, nil, registrations)) == 0 {
		return v.applications(), nil
	}
	ask := newAsker(f, want)
	indices, told := false, ""
	tell := func(line string) {
		if line != told {
			told = line
			p(line)
		}
	}
	for {
		known, now, failed := f.snapshot(ctx)
		if err = failed; err == nil {
			registrations, v = known, now
			left := v.judge(want, ask, registrations)
			if len(left) == 0 {
				return v.applications(), f.noteNamespaces(ctx, v)
			}
			tell(progressLine(v, want, left))
			if !indices {
				err = f.refreshCharts(ctx)
				indices = err == nil
			}
			if err == nil {
				err = ask.look(ctx, v)
			}
		} else if ctx.Err() == nil {
			tell(words.Clip("the hub does not answer: "+root(err).Error(), words.Width))
		}
		if lab.Sleep(ctx, lookEvery) != nil {
			return v.applications(), f.notConverged(ctx, v, want, v.judge(want, ask, registrations), time.Since(start), err)
		}
	}
}

// snapshot reads everything once.
func (f *Flux) snapshot(ctx context.Context) ([]engine.Registered, view, error) {
	registrations, err := f.registrations(ctx)
	if err != nil {
		return nil, view{}, err
	}
	v, err := f.look(ctx)
	return registrations, v, err
}

// root is an error without addresses and resources, which mean little to a user.
func root(err error) error {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err
}

// progressLine summarises the progress: "9 of 11 in sync and healthy, prod-podinfo: deployment podinfo: 0 of 2 ready".
func progressLine(v view, want engine.Want, left []pending) string {
	total := v.total(want)
	line := fmt.Sprintf("%d of %d in sync and healthy", max(total-applicationsAmong(left), 0), total)
	first := left[0].Pending
	first.Reason = words.Clip(first.Reason, max(words.Width-len(line)-len(first.Application)-len(", : "), words.Width/3))
	return line + ", " + first.String()
}

// total is the number of applications that are waited for.
func (v view) total(want engine.Want) int {
	n := 0
	for name, k := range v.apps {
		if cluster, _ := clusterOf(k.Namespace); want.WaitsFor(cluster) && !slices.Contains(want.LeftOut, name) {
			n++
		}
	}
	for _, name := range want.Expected {
		if _, there := v.apps[name]; !there {
			n++
		}
	}
	return n
}

func applicationsAmong(left []pending) int {
	n := 0
	for _, p := range left {
		if !p.layer {
			n++
		}
	}
	return n
}

// headline returns the error message: "1 of 11 applications is not healthy after 5m 0s".
func headline(v view, want engine.Want, left []pending, waited time.Duration) string {
	after := " after " + lab.WholeSeconds(waited)
	bad, unhealthy, staying := 0, 0, 0
	for _, p := range left {
		switch k, there := v.apps[p.Application]; {
		case p.Application == noRoot:
			return "the " + noRoot + " does not exist" + after
		case p.layer:
			return "kustomization " + p.Application + " is not in sync" + after
		case there && (k.DeletionTimestamp != nil || slices.Contains(want.Gone, p.Application)):
			staying++
		case p.Health != "" && p.Health != healthy:
			unhealthy++
		}
		bad++
	}
	is, state := "are", "in sync"
	if bad == 1 {
		is = "is"
	}
	switch bad {
	case 0:
		return "flux has not converged" + after
	case unhealthy:
		state = "healthy"
	case staying:
		state = "removed"
	}
	return fmt.Sprintf("%d of %d applications %s not %s%s", bad, v.total(want), is, state, after)
}

// describeWithin bounds the queries to spokes after a failed wait, so that an unreachable one does not delay the error.
const describeWithin = 10 * time.Second

// linesEach bounds the lines per application.
const linesEach = 6

// notConverged returns the error of a failed wait, with the reason for each application down to its pods if reachable.
func (f *Flux) notConverged(ctx context.Context, v view, want engine.Want, left []pending, waited time.Duration, seen error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), describeWithin)
	defer cancel()
	var rows []words.Row
	for _, p := range left {
		rows = append(rows, words.Row{Name: p.Application, State: p.State(), Reasons: f.explain(asking, v, p)})
	}
	if ctx.Err() != nil && errors.Is(seen, ctx.Err()) {
		seen = nil // the last look was cut off
	}
	return &lab.Error{
		Exit: lab.ExitTimeout, Code: "not_converged", Err: seen,
		Message: headline(v, want, left, waited),
		Cure:    "what is up stays up. once mended, run lab up again; lab diagnose writes everything worth reading to a file",
		Details: words.Table(rows),
	}
}

// explain returns why one application has not converged, most specific first.
func (f *Flux) explain(ctx context.Context, v view, p pending) []string {
	var lines []string
	if k, there := v.apps[p.Application]; there && p.Health != healthy {
		lines = f.describePods(ctx, v, k)
	}
	if p.Reason != "" && (len(lines) == 0 || p.Health == degraded) {
		lines = append(lines, words.Clip(p.Reason, 4*words.Width))
	}
	return lines[:min(len(lines), linesEach)]
}
