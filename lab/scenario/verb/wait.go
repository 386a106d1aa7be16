package verb

import (
	"context"
	"time"

	"homelab/lab"
	"homelab/lab/scenario"
)

type wait struct {
	For time.Duration `yaml:"for" need:"true" max:"10m" doc:"how long"`
}

func (w *wait) Check(*scenario.Checker) {}

// Waits returns the duration, which is checked against the story's timeout.
func (w *wait) Waits() time.Duration { return w.For }

func (w *wait) Do(ctx context.Context, c *scenario.Call) error {
	if err := lab.Sleep(ctx, w.For); err != nil {
		return err
	}
	c.Did("%s passed", scenario.Span(w.For))
	return nil
}
