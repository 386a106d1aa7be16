package flux

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/flux/reconciliation"
	"homelab/lab/engine/words"
	"homelab/lab/engine/workload"
)

const lookEvery = 500 * time.Millisecond

// WaitConverged waits until the roots are at the wanted commit and all applications are as wanted. It returns the applications as last seen. If ctx's deadline
// expires first, the error is a *lab.Error with lab.ExitTimeout and the reason for each application.
func (f *Flux) WaitConverged(ctx context.Context, want engine.Want, p lab.Progress) ([]lab.Application, error) {
	return converge(ctx, f.snapshots, want, p)
}

// converge waits for the instances of Flux that see returns.
func converge(ctx context.Context, see func(context.Context, engine.Want) (snapshots, error), want engine.Want, p lab.Progress) ([]lab.Application, error) {
	start := time.Now()
	s, err := see(ctx, want)
	if err == nil && !want.Changed && len(s.judge(want, nil)) == 0 {
		return s.applications(), nil
	}
	asks, loops, logins := askers{}, workload.Loops{}, map[string]bool{}
	var moves engine.Moves
	reported := ""
	progress := func(line string) {
		if line != reported {
			reported = line
			p(line)
		}
	}
	for {
		now, failed := see(ctx, want)
		if err = failed; err == nil {
			s = now
			asks.add(s, want)
			left := s.judge(want, asks)
			if len(left) == 0 {
				return s.applications(), s.noteNamespaces(ctx)
			}
			progress(progressLine(s, want, left))
			moves.Look(want, states(left))
			if loops.Look(len(left), func() *workload.Loop { return s.loop(ctx, left, &loops) }) != nil {
				return s.applications(), notConverged(ctx, s, want, left, time.Since(start), nil)
			}
			err = errors.Join(s.follow(ctx, logins), asks.look(ctx, s))
		} else if ctx.Err() == nil {
			progress(words.Clip("the hub does not answer: "+root(err).Error(), words.Width))
		}
		if lab.Sleep(ctx, lookEvery) != nil {
			return s.applications(), notConverged(ctx, s, want, s.judge(want, asks), time.Since(start), err)
		}
	}
}

func (s snapshots) follow(ctx context.Context, logins map[string]bool) error {
	for _, one := range s {
		if one.silent != nil {
			continue
		}
		if err := one.flux.follow(ctx, one.View, logins); err != nil {
			return err
		}
	}
	return nil
}

func (s snapshots) noteNamespaces(ctx context.Context) error {
	for _, one := range s {
		if err := one.flux.noteNamespaces(ctx, one.View); err != nil {
			return err
		}
	}
	return nil
}

// root returns the innermost error, without the addresses and resources around it.
func root(err error) error {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err
}

// progressLine summarises the progress: "9 of 11 in sync and healthy, prod-podinfo: deployment podinfo: 0 of 2 ready".
func progressLine(s snapshots, want engine.Want, left []reconciliation.Pending) string {
	total := s.total(want)
	line := fmt.Sprintf("%d of %d in sync and healthy", max(total-applicationsAmong(left), 0), total)
	first := want.Doubted(left[0].Pending)
	first.Reason = words.Clip(first.Reason, max(words.Width-len(line)-len(first.Application)-len(", : "), words.Width/3))
	return line + ", " + first.String()
}

func states(left []reconciliation.Pending) []engine.Pending {
	list := make([]engine.Pending, len(left))
	for i, p := range left {
		list[i] = p.Pending
	}
	return list
}

func applicationsAmong(left []reconciliation.Pending) int {
	n := 0
	for _, p := range left {
		if !p.Layer {
			n++
		}
	}
	return n
}

// headline returns the error message.
func headline(s snapshots, want engine.Want, left []reconciliation.Pending, waited time.Duration) string {
	after := " after " + lab.WholeSeconds(waited)
	n := engine.Tally{Total: s.total(want)}
	for _, p := range left {
		switch k, _, there := s.app(p.Application); {
		case p.Silent:
			return p.Application + " does not answer" + after
		case strings.HasPrefix(p.Application, reconciliation.NoRoot):
			return "the " + p.Application + " does not exist" + after
		case p.Layer:
			return "kustomization " + p.Application + " is not in sync" + after
		case there && (k.DeletionTimestamp != nil || slices.Contains(want.Gone, p.Application)):
			n.Staying++
		case p.Health != "" && p.Health != reconciliation.Healthy:
			n.Unhealthy++
		}
		n.Bad++
	}
	if n.Bad == 0 {
		return "flux has not converged" + after
	}
	return n.After(waited)
}

// describeWithin bounds the queries to spokes after a failed wait, so that an unreachable one does not delay the error.
const describeWithin = 10 * time.Second

// linesEach bounds the lines per application.
const linesEach = 6

// notConverged returns the error of a failed wait, with the reason for each application down to its pods if reachable.
func notConverged(ctx context.Context, s snapshots, want engine.Want, left []reconciliation.Pending, waited time.Duration, seen error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), describeWithin)
	defer cancel()
	var rows []words.Row
	for _, p := range left {
		of := snapshot{flux: &Flux{}}
		if _, one, there := s.app(p.Application); there {
			of = one
		}
		rows = append(rows, words.Row{Name: p.Application, State: p.State(), Reasons: of.flux.explain(asking, of.View, p)})
	}
	if ctx.Err() != nil && errors.Is(seen, ctx.Err()) {
		seen = nil // the last look was interrupted
	}
	return engine.NotConverged(headline(s, want, left, waited), words.Table(rows), seen)
}

// explain returns why one application has not converged, most specific first.
func (f *Flux) explain(ctx context.Context, v reconciliation.View, p reconciliation.Pending) []string {
	var lines []string
	if k, there := v.Apps[p.Application]; there && p.Health != reconciliation.Healthy {
		lines = f.describePods(ctx, v, k)
	}
	if p.Reason != "" && (len(lines) == 0 || p.Health == reconciliation.Degraded) {
		lines = append(lines, words.Clip(p.Reason, 4*words.Width))
	}
	return lines[:min(len(lines), linesEach)]
}
