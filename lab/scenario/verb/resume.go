package verb

import (
	"context"

	"homelab/lab/scenario"
)

// resume resumes a paused cluster; otherwise it is a no-op.
type resume struct {
	changes
	Cluster string `yaml:"cluster" need:"true"`
}

func (r *resume) Check(*scenario.Checker) {}

func (r *resume) Do(ctx context.Context, c *scenario.Call) error {
	if err := c.Clusters.Resume(ctx, r.Cluster); err != nil {
		return err
	}
	c.Note(scenario.Lane{Cluster: r.Cluster, Name: "cluster"}, "resumed")
	c.Did("%s resumed", r.Cluster)
	return nil
}
