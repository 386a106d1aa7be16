package up

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// slowSupply is a Supply that finishes building at ends.
type slowSupply struct {
	Supply
	ends time.Time
}

func (s slowSupply) Left() time.Duration { return max(0, time.Until(s.ends)) }

func TestRunSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := &run{Lab: &Lab{Supply: slowSupply{ends: began.Add(time.Hour)}}}
		told := 0
		if err := r.waitForBuilds(t.Context(), func(string) { told++ }); err != nil || told != 1 {
			t.Errorf("%v, progress reported %d times", err, told)
		}
		if waited := time.Since(began); waited < time.Hour-clusterBootTime || waited > time.Hour-clusterBootTime+2*time.Second {
			t.Errorf("waited %s", waited)
		}
		if err := r.waitForBuilds(t.Context(), func(string) { t.Error("waits although almost built") }); err != nil {
			t.Error(err)
		}

		r.Supply = slowSupply{ends: time.Now().Add(time.Hour)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.waitForBuilds(ctx, func(string) {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with timeout: %v", err)
		}
	})
}
