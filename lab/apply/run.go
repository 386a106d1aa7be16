// Package apply runs the steps of a plan concurrently, each after its dependencies.
package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"homelab/lab"
)

// Outcome is the result of an executor.
type Outcome struct {
	Detail  string   // one line: a version, a URL
	Changes []string // descriptions of changes
}

// Executor executes a step. It returns when the desired state is reached, or an error.
type Executor func(ctx context.Context, step lab.Step, p lab.Progress) (Outcome, error)

// Runner runs plans. Only Executors is required.
type Runner struct {
	Executors map[string]Executor // by Step.Kind
	Events    func(lab.Event)     // called from several goroutines; may be nil
	Now       func() time.Time    // if nil, time.Now
}

// Result is the result of a run.
type Result struct {
	Steps   []lab.StepResult
	Changes []string // "bridge/prod: annotation aws_region: a -> b", in plan order
}

// Run runs each step after its needs. A failed step only skips those that need it. The error is the context's cause, or else
// that of the first failure. On cancellation Run waits for started steps, and after a grace period reports them as
// stopping; the result is complete in any case. A panic fails its step.
func (r Runner) Run(ctx context.Context, steps []lab.Step) (Result, error) {
	if err := Check(steps, r.Executors); err != nil {
		return Result{}, err
	}
	now := r.Now
	if now == nil {
		now = time.Now
	}
	run := &running{Runner: r, now: now, began: now(), done: map[string]chan struct{}{}, ended: map[string]*ended{}, live: map[string]live{}}
	for _, s := range steps {
		run.done[s.ID] = make(chan struct{})
		run.ended[s.ID] = &ended{}
	}
	var group errgroup.Group
	for _, s := range steps {
		group.Go(func() error {
			defer close(run.done[s.ID])
			run.step(ctx, s)
			return nil
		})
	}
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { run.interrupted(ctx, over, steps) })
	_ = group.Wait() // outcomes are kept per step
	close(over)
	watch.Wait()
	return run.result(ctx, steps)
}

type ended struct {
	outcome Outcome
	seconds float64
	state   lab.StepState
	err     error
	at      time.Time
}

type running struct {
	Runner
	now   func() time.Time
	began time.Time
	done  map[string]chan struct{}
	ended map[string]*ended // each written by its step before done is closed

	mu       sync.Mutex // guards the rest, and events
	live     map[string]live
	stopping bool
}

type live struct {
	start  time.Time
	detail string
}

// grace is the time between an interrupt and the report of unfinished steps: most end immediately.
const grace = 500 * time.Millisecond

// interrupted reports unfinished steps after an interrupt.
func (r *running) interrupted(ctx context.Context, over <-chan struct{}, steps []lab.Step) {
	select {
	case <-ctx.Done():
	case <-over:
		return
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-over:
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopping = true
	for _, s := range steps {
		if l, ok := r.live[s.ID]; ok {
			r.send(s, l.start, lab.StepStopping, l.detail)
		}
	}
}

func (r *running) step(ctx context.Context, s lab.Step) {
	mine := r.ended[s.ID]
	defer func() {
		if v := recover(); v != nil || mine.state == "" { // no state: runtime.Goexit
			mine.state, mine.err, mine.at = lab.StepFailed, fault(s, v), r.now()
		}
	}()
	for _, need := range s.Needs {
		<-r.done[need]
		if st := r.ended[need].state; st != lab.StepDone {
			mine.state = lab.StepSkipped
		}
	}
	start := r.now()
	if mine.state == lab.StepSkipped || ctx.Err() != nil {
		mine.state = lab.StepSkipped
		r.event(s, start, lab.StepSkipped, "")
		return
	}
	if s.Action == lab.ActionNone {
		mine.state, mine.outcome.Detail = lab.StepDone, s.Reason
		r.event(s, start, lab.StepDone, s.Reason)
		return
	}
	r.event(s, start, lab.StepRunning, s.Reason)
	mine.outcome, mine.err = r.execute(ctx, s, func(detail string) { r.event(s, start, lab.StepRunning, detail) })
	mine.at = r.now()
	mine.seconds = mine.at.Sub(start).Seconds()
	if ctx.Err() != nil && errors.Is(mine.err, context.Canceled) {
		mine.state = lab.StepStopped
		r.event(s, start, lab.StepStopped, r.lastDetail(s))
		return
	}
	if mine.err != nil {
		mine.state = lab.StepFailed
		r.event(s, start, lab.StepFailed, firstLine(mine.err))
		return
	}
	mine.state = lab.StepDone
	r.event(s, start, lab.StepDone, mine.outcome.Detail)
}

// execute runs a step. It recovers panics, so that other steps can clean up.
func (r *running) execute(ctx context.Context, s lab.Step, p lab.Progress) (out Outcome, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fault(s, v)
		}
	}()
	return r.Executors[s.Kind](ctx, s, p)
}

func (r *running) event(s lab.Step, start time.Time, state lab.StepState, detail string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if state == lab.StepRunning {
		r.live[s.ID] = live{start, detail}
		if r.stopping {
			state = lab.StepStopping
		}
	} else {
		delete(r.live, s.ID)
	}
	r.send(s, start, state, detail)
}

// send is event with mu held.
func (r *running) send(s lab.Step, start time.Time, state lab.StepState, detail string) {
	if r.Events == nil {
		return
	}
	now := r.now()
	r.Events(lab.Event{Step: s, State: state, Detail: detail, Since: now.Sub(r.began), Elapsed: now.Sub(start)})
}

// lastDetail returns the last progress of a running step.
func (r *running) lastDetail(s lab.Step) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live[s.ID].detail
}

func (r *running) result(ctx context.Context, steps []lab.Step) (Result, error) {
	res := Result{Steps: []lab.StepResult{}, Changes: []string{}}
	var first *ended
	for _, s := range steps {
		e := r.ended[s.ID]
		detail := e.outcome.Detail
		if e.state != lab.StepDone {
			detail = string(e.state)
		}
		res.Steps = append(res.Steps, lab.StepResult{Name: s.Kind, Cluster: s.Cluster, Seconds: e.seconds, Result: detail})
		for _, c := range e.outcome.Changes {
			res.Changes = append(res.Changes, s.ID+": "+c)
		}
		if e.err != nil && (first == nil || e.at.Before(first.at)) {
			first = e
		}
	}
	if err := context.Cause(ctx); err != nil {
		return res, err
	}
	if first != nil {
		return res, first.err
	}
	return res, nil
}

func firstLine(err error) string {
	var le *lab.Error
	if errors.As(err, &le) {
		return le.Message
	}
	return err.Error()
}

// Check validates a plan: IDs are unique, needs precede their steps, and every kind has an executor.
func Check(steps []lab.Step, executors map[string]Executor) error {
	var seen []string
	for _, s := range steps {
		if slices.Contains(seen, s.ID) {
			return fmt.Errorf("plan: duplicate step %s", s.ID)
		}
		for _, need := range s.Needs {
			if !slices.Contains(seen, need) {
				return fmt.Errorf("plan: step %s needs %s, which does not precede it", s.ID, need)
			}
		}
		if executors[s.Kind] == nil && s.Action != lab.ActionNone {
			return fmt.Errorf("plan: no executor for kind %s", s.Kind)
		}
		seen = append(seen, s.ID)
	}
	return nil
}
