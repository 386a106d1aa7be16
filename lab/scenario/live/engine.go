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

// Hub is the engine of a lab that runs.
type Hub interface {
	engine.Watcher
	engine.Marker
	engine.Reporter
}

// Engine is a lab's engine in the words of scenarios.
type Engine struct {
	Hub Hub

	beat, answer time.Duration // how often the hub is asked, and how long it may take; 0 for beatEvery and answerWithin
}

// How long a silent hub goes unnoticed. An engine's watch goes on over a connection that breaks, and says nothing of one on which nothing comes any more.
const (
	beatEvery    = 5 * time.Second
	answerWithin = 10 * time.Second
)

// Watch tells of applications, for as long as the hub answers.
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

// ask asks the hub now and then, and stops the watch when it gives no answer.
func (e Engine) ask(ctx context.Context, stop context.CancelCauseFunc) {
	beat := time.NewTicker(cmp.Or(e.beat, beatEvery))
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
		within, cancel := context.WithTimeout(ctx, cmp.Or(e.answer, answerWithin))
		_, err := e.Hub.Applications(within)
		cancel()
		if err != nil {
			stop(fmt.Errorf("%w: %v", errSilent, err))
			return
		}
	}
}

// Registration is what the engine knows of a cluster.
func (e Engine) Registration(ctx context.Context, cluster string) (scenario.Marks, error) {
	r, err := e.Hub.Registration(ctx, cluster)
	return scenario.Marks{Labels: pointers(r.Labels), Annotations: pointers(r.Annotations)}, err
}

// Mark changes that.
func (e Engine) Mark(ctx context.Context, cluster string, m scenario.Marks) error {
	return e.Hub.Mark(ctx, cluster, engine.Marks{Labels: m.Labels, Annotations: m.Annotations})
}

// Settled is the commit that the root is in sync with.
func (e Engine) Settled(ctx context.Context) (string, error) {
	s, err := e.Hub.Standing(ctx)
	if err != nil || !s.Settled {
		return "", err
	}
	return s.Revision, nil
}

// Follow waits as `lab up` does after a change.
func (e Engine) Follow(ctx context.Context, commit string, but []string) error {
	_, err := e.Hub.WaitConverged(ctx, engine.Want{Revision: commit, LeftOut: but, Changed: true}, func(string) {})
	return err
}

// Refresh asks the engine to look at Git.
func (e Engine) Refresh(ctx context.Context) error { return e.Hub.Refresh(ctx) }

func pointers(m map[string]string) map[string]*string {
	out := make(map[string]*string, len(m))
	for k, v := range m {
		out[k] = &v
	}
	return out
}
