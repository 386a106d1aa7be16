package verb

import (
	"context"

	"homelab/lab/scenario"
)

// pause freezes a cluster until it is resumed or the story ends.
type pause struct {
	changes `yaml:",inline"`
	Cluster string `yaml:"cluster" need:"true"`
}

func (p *pause) Check(*scenario.Checker) {}

// Alone returns why it is not played beside other stories.
func (*pause) Alone() string { return "cuts off a cluster" }

func (p *pause) Do(ctx context.Context, c *scenario.Call) error {
	c.Undo("resume "+p.Cluster, func(ctx context.Context) error { return c.Clusters.Resume(ctx, p.Cluster) })
	if err := c.Clusters.Pause(ctx, p.Cluster); err != nil {
		return err
	}
	c.Silence(p.Cluster, "it is paused")
	c.Note(scenario.Lane{Cluster: p.Cluster, Name: "cluster"}, "paused")
	c.Did("%s paused", p.Cluster)
	return nil
}
