package lab

import (
	"context"
	"errors"
	"regexp"
	"time"
)

// FarLimit is how many times its patience a wait lasts at most, however much moves.
const FarLimit = 5

var numbers = regexp.MustCompile(`[0-9]+`)

// Uncounted returns an application's message for comparisons that notice progress. A rollout counts replicas, but a sync that fails counts its retries, and has other ports in
// its errors: numbers are progress while health is Progressing alone.
func Uncounted(health, message string) string {
	if health == "Progressing" {
		return message
	}
	return numbers.ReplaceAllString(message, "#")
}

// OutOfPatience is the cause of the end of a context of Patient.
type OutOfPatience struct {
	Patience time.Duration
	Moving   bool // something was still moving at the far limit
}

func (o OutOfPatience) Error() string {
	if o.Moving {
		return "not done after " + WholeSeconds(FarLimit*o.Patience) + ", though things still moved"
	}
	return "nothing moved for " + WholeSeconds(o.Patience)
}

// Is makes it a deadline that was exceeded.
func (o OutOfPatience) Is(target error) bool { return target == context.DeadlineExceeded }

// Patient returns a context that expires, as at a deadline, once moved was not called for the time of patience, or after FarLimit times that. Cancel releases it.
func Patient(ctx context.Context, patience time.Duration) (_ context.Context, moved, cancel func()) {
	end := time.Now().Add(FarLimit * patience)
	inner, stop := context.WithCancelCause(ctx)
	p := &patient{Context: inner, end: end, done: make(chan struct{})}
	context.AfterFunc(inner, func() { close(p.done) })
	far := time.AfterFunc(FarLimit*patience, func() { stop(OutOfPatience{patience, true}) })
	quiet := time.AfterFunc(patience, func() { stop(OutOfPatience{patience, !time.Now().Before(end)}) })
	moved = func() {
		if inner.Err() == nil {
			quiet.Reset(patience)
		}
	}
	return p, moved, func() {
		far.Stop()
		quiet.Stop()
		stop(nil)
	}
}

// patient is a context whose deadline moves. It has a channel of its own, so that contexts derived from it end with its error, not with that of the inner one.
type patient struct {
	context.Context
	end  time.Time
	done chan struct{}
}

func (p *patient) Deadline() (time.Time, bool) {
	if at, ok := p.Context.Deadline(); ok && at.Before(p.end) {
		return at, true
	}
	return p.end, true
}

func (p *patient) Done() <-chan struct{} { return p.done }

func (p *patient) Err() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	if errors.Is(context.Cause(p.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return p.Context.Err()
}
