package verb

import (
	"context"

	"homelab/lab/scenario"
)

// resume resumes a paused or disconnected cluster; otherwise it is a no-op.
type resume struct {
	changes `yaml:",inline"`
	Cluster string `yaml:"cluster" need:"true"`
}

func (r *resume) Check(*scenario.Checker) {}

// Alone returns why it is not played beside other stories.
func (*resume) Alone() string { return "concerns a whole cluster" }

func (r *resume) Do(ctx context.Context, c *scenario.Call) error {
	if err := c.Clusters.Resume(ctx, r.Cluster); err != nil {
		return err
	}
	if c.Machines != nil {
		if err := c.Machines.Repair(ctx, r.Cluster); err != nil {
			return err
		}
	}
	c.Note(scenario.Lane{Cluster: r.Cluster, Name: "cluster"}, "resumed")
	c.Did("%s resumed", r.Cluster)
	return nil
}
