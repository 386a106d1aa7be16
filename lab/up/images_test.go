package up

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// slowSupply has an hour of building left, and then ever less.
type slowSupply struct {
	Supply
	ends time.Time
}

func (s slowSupply) Left() time.Duration { return max(0, time.Until(s.ends)) }

func TestClustersWaitForWhatIsBuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := &run{Lab: &Lab{Supply: slowSupply{ends: began.Add(time.Hour)}}}
		told := 0
		if err := r.soon(t.Context(), func(string) { told++ }); err != nil || told != 1 {
			t.Errorf("%v, told %d times", err, told)
		}
		if waited := time.Since(began); waited < time.Hour-making || waited > time.Hour-making+2*time.Second {
			t.Errorf("waited %s", waited)
		}
		if err := r.soon(t.Context(), func(string) { t.Error("waits for what is almost there") }); err != nil {
			t.Error(err)
		}

		r.Supply = slowSupply{ends: time.Now().Add(time.Hour)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.soon(ctx, func(string) {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("interrupted: %v", err)
		}
	})
}
