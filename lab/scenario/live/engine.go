package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/scenario"
)

// Hub is the engine of a running lab.
type Hub interface {
	engine.Watcher
	engine.Marker
	engine.Reporter
}

// Engine adapts a Hub to scenario.Engine.
type Engine struct {
	Hub Hub

	probe, answer time.Duration // probe interval and timeout; 0 for probeEvery and probeTimeout
}

// Limits for the detection of a silent hub. A watch notices a broken connection, but not one on which nothing arrives.
const (
	probeEvery   = 5 * time.Second
	probeTimeout = 10 * time.Second
)

// Watch reports applications for as long as the hub answers.
func (e Engine) Watch(ctx context.Context, seen func(scenario.Application), ready func()) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var asking sync.WaitGroup
	asking.Go(func() { e.ask(ctx, stop) })
	err := e.Hub.Watch(ctx, func(a lab.Application, o engine.Observed) {
		if ctx.Err() == nil {
			seen(scenario.Application{Application: a, Gone: o.Gone, Heals: o.SelfHeal, Definition: o.Definition})
		}
	}, ready)
	if silent := context.Cause(ctx); errors.Is(silent, errSilent) {
		err = silent
	}
	stop(nil)
	asking.Wait()
	return err
}

var errSilent = errors.New("the hub does not answer")

// ask probes the hub and stops the watch when it does not answer.
func (e Engine) ask(ctx context.Context, stop context.CancelCauseFunc) {
	probe := time.NewTicker(cmp.Or(e.probe, probeEvery))
	defer probe.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-probe.C:
		}
		within, cancel := context.WithTimeout(ctx, cmp.Or(e.answer, probeTimeout))
		_, err := e.Hub.Applications(within)
		cancel()
		if err != nil {
			stop(fmt.Errorf("%w: %v", errSilent, err))
			return
		}
	}
}

// Registration returns the marks of a registered cluster.
func (e Engine) Registration(ctx context.Context, cluster string) (scenario.Marks, error) {
	r, err := e.Hub.Registration(ctx, cluster)
	return scenario.Marks{Labels: pointers(r.Labels), Annotations: pointers(r.Annotations)}, err
}

// Mark changes the marks of a registered cluster.
func (e Engine) Mark(ctx context.Context, cluster string, m scenario.Marks) error {
	return e.Hub.Mark(ctx, cluster, engine.Marks{Labels: m.Labels, Annotations: m.Annotations})
}

// Settled returns the commit that the root is synced to.
func (e Engine) Settled(ctx context.Context) (string, error) {
	s, err := e.Hub.Snapshot(ctx)
	if err != nil || !s.Settled {
		return "", err
	}
	return s.Revision, nil
}

// Follow waits for a commit, as `lab up` does.
func (e Engine) Follow(ctx context.Context, commit string, but []string, moved func()) error {
	_, err := e.Hub.WaitConverged(ctx, engine.Want{Revision: commit, LeftOut: but, Changed: true, Moved: moved}, func(string) {})
	return err
}

// Refresh makes the engine poll Git.
func (e Engine) Refresh(ctx context.Context) error { return e.Hub.Refresh(ctx) }

func pointers(m map[string]string) map[string]*string {
	out := make(map[string]*string, len(m))
	for k, v := range m {
		out[k] = &v
	}
	return out
}
