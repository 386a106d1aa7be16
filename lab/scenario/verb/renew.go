package verb

import (
	"context"

	"homelab/lab/scenario"
)

// renew removes a cluster and creates it again.
type renew struct {
	changes `yaml:",inline"`
	Cluster string `yaml:"cluster" need:"true"`
}

func (r *renew) Check(*scenario.Checker) {}

// Alone returns why it is not played beside other stories.
func (*renew) Alone() string { return "recreates a cluster" }

func (r *renew) Do(ctx context.Context, c *scenario.Call) error {
	if err := c.Renew(ctx, r.Cluster); err != nil {
		return err
	}
	c.Silence(r.Cluster, "it was recreated")
	c.Note(scenario.Lane{Cluster: r.Cluster, Name: "cluster"}, "recreated")
	c.Did("%s recreated", r.Cluster)
	return nil
}
