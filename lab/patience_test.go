package lab_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"homelab/lab"
)

// A wait ends when nothing has moved for its patience, or at the far limit.
func TestPatient(t *testing.T) {
	for name, c := range map[string]struct {
		every  time.Duration // something moves
		until  time.Duration
		after  time.Duration
		reason string
	}{
		"nothing moves":            {time.Hour, 0, time.Minute, "nothing moved for 1m 0s"},
		"moves for a while":        {50 * time.Second, 2 * time.Minute, 160 * time.Second, "nothing moved for 1m 0s"},
		"too late":                 {61 * time.Second, time.Hour, time.Minute, "nothing moved for 1m 0s"},
		"moves, and never arrives": {10 * time.Second, time.Hour, 5 * time.Minute, "not done after 5m 0s, though things still moved"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, moved, cancel := lab.Patient(t.Context(), time.Minute)
				defer cancel()
				derived, done := context.WithTimeout(ctx, time.Hour)
				defer done()
				tick := time.NewTicker(c.every)
				defer tick.Stop()
				for derived.Err() == nil {
					select {
					case <-derived.Done():
					case <-tick.C:
						if time.Since(began) <= c.until {
							moved()
						}
					}
				}
				moved() // after the end, nothing
				if took := time.Since(began); took != c.after {
					t.Errorf("ended after %s, want %s", took, c.after)
				}
				for _, of := range []context.Context{ctx, derived} {
					if err := of.Err(); err != context.DeadlineExceeded { //nolint:errorlint // the contract of a context
						t.Errorf("error %v", err)
					}
					if err := context.Cause(of); err.Error() != c.reason || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("cause %q, want %q", err, c.reason)
					}
				}
			})
		})
	}
}

// An interrupt, and the deadline of the context around it, end it as they are.
func TestPatientInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		around, interrupt := context.WithCancel(t.Context())
		ctx, _, cancel := lab.Patient(around, time.Minute)
		defer cancel()
		interrupt()
		<-ctx.Done()
		if err := ctx.Err(); !errors.Is(err, context.Canceled) || errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			t.Errorf("error %v, cause %v", err, context.Cause(ctx))
		}

		around, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		ctx, _, cancel = lab.Patient(around, time.Minute)
		defer cancel()
		if at, ok := ctx.Deadline(); !ok || time.Until(at) != time.Second {
			t.Errorf("deadline in %s", time.Until(at))
		}
		<-ctx.Done()
		if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}
