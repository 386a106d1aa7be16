package verb

import (
	"context"

	"homelab/lab"
	"homelab/lab/scenario"
)

// switching has another engine take the place of the lab's until the end of the story.
type switching struct {
	changes
	Engine string `yaml:"engine" need:"true" enum:"argocd,flux" doc:"what the lab runs from then on; at the end of the story it runs what it did before"`
}

func (s *switching) Check(*scenario.Checker) {}

func (s *switching) Do(ctx context.Context, c *scenario.Call) error {
	to := lab.EngineType(s.Engine)
	if to == c.Engines {
		c.Did("%s is the engine already", to.Title())
		return nil
	}
	if err := c.SwitchEngine(ctx, to); err != nil {
		return err
	}
	c.Note(scenario.Lane{Cluster: c.Estate.Hub().Name, Name: "engine"}, to.Title())
	c.Did("%s in place of %s", to.Title(), c.Engines.Title())
	return nil
}
