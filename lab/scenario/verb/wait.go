package verb

import (
	"context"
	"time"

	"homelab/lab/scenario"
)

// wait lets time pass.
type wait struct {
	For time.Duration `yaml:"for" need:"true" max:"10m" doc:"how long"`
}

func (w *wait) Check(*scenario.Checker) {}

// Waits lets a story that would wait beyond its timeout be refused beforehand.
func (w *wait) Waits() time.Duration { return w.For }

func (w *wait) Do(ctx context.Context, c *scenario.Call) error {
	timer := time.NewTimer(w.For)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
	}
	c.Did("%s passed", w.For)
	return nil
}
