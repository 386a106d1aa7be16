package verb

import (
	"context"

	"homelab/lab"
	"homelab/lab/scenario"
)

// switching replaces the lab's engine until the end of the story.
type switching struct {
	changes `yaml:",inline"`
	Engine  lab.EngineType `yaml:"engine" need:"true" doc:"the new engine, until the end of the story"`
}

func (s *switching) Check(*scenario.Checker) {}

// Alone returns why it is not played beside other stories.
func (*switching) Alone() string { return "replaces the engine" }

func (s *switching) Do(ctx context.Context, c *scenario.Call) error {
	to := s.Engine
	if to == c.Engines {
		c.Did("already %s", to.Title())
		return nil
	}
	if err := c.SwitchEngine(ctx, to); err != nil {
		return err
	}
	c.Note(scenario.Lane{Cluster: c.Estate.Hub().Name, Name: "engine"}, to.Title())
	c.Did("%s replaces %s", to.Title(), c.Engines.Title())
	return nil
}
