package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// cancelGrace is the grace period of a cancelled call.
const cancelGrace = time.Second

// noAnswer is the cause of a call's timeout.
type noAnswer struct{ within time.Duration }

func (n noAnswer) Error() string { return "no answer within " + Span(n.within) }

// within runs do for at most limit, and not beyond the end of ctx, even if do ignores its context.
func within[T any](ctx context.Context, limit time.Duration, do func(context.Context) (T, error)) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, noAnswer{limit})
	defer cancel()
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := do(ctx)
		done <- outcome{value, err}
	}()
	select {
	case out := <-done:
		return out.value, because(ctx, out.err)
	case <-ctx.Done():
	}
	timer := time.NewTimer(cancelGrace)
	defer timer.Stop()
	select {
	case out := <-done:
		return out.value, because(ctx, out.err)
	case <-timer.C:
	}
	return none, context.Cause(ctx)
}

// answered makes one call to a cluster with a timeout of callTimeout.
func answered(ctx context.Context, call func(context.Context) error) error {
	within, cancel := context.WithTimeoutCause(ctx, callTimeout, noAnswer{callTimeout})
	defer cancel()
	err := call(within)
	if err != nil && within.Err() != nil {
		return context.Cause(within)
	}
	return err
}

// because returns the cause of ctx if it has ended, else err.
func because(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	var unmet *Unmet
	if err == nil || cause == nil || errors.Is(err, cause) || errors.As(err, &unmet) {
		return err
	}
	return fmt.Errorf("%w: %v", cause, err)
}
