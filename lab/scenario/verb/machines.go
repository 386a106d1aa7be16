package verb

import (
	"cmp"
	"context"
	"errors"
	"time"

	"homelab/lab/scenario"
)

var errNoMachines = errors.New("the nodes of this lab's clusters cannot be reached")

// repairTimeout is how long nodes may take to be connected, and restarted if their addresses have changed.
const repairTimeout = 2 * time.Minute

// reboot restarts nodes.
type reboot struct {
	changes `yaml:",inline"`
	Cluster string `yaml:"cluster" need:"true"`
	Node    string `yaml:"node" doc:"name of the node; default all"`
}

func (r *reboot) Check(*scenario.Checker) {}

// Alone returns why it is not played beside other stories.
func (*reboot) Alone() string { return "reboots nodes" }

func (r *reboot) Do(ctx context.Context, c *scenario.Call) error {
	if c.Machines == nil {
		return errNoMachines
	}
	c.UndoWithin("nodes of "+r.Cluster, repairTimeout, func(ctx context.Context) error { return c.Machines.Repair(ctx, r.Cluster) })
	if err := c.Machines.Reboot(ctx, r.Cluster, r.Node); err != nil {
		return err
	}
	c.Silence(r.Cluster, "it is rebooting")
	what := cmp.Or(r.Node, "all nodes of "+r.Cluster)
	c.Note(scenario.Lane{Cluster: r.Cluster, Name: "cluster"}, what+" rebooted")
	c.Did("%s rebooted", what)
	return nil
}

// partition disconnects a cluster from the lab's network until it is resumed or the story ends.
type partition struct {
	changes `yaml:",inline"`
	Cluster string `yaml:"cluster" need:"true"`
}

func (p *partition) Check(*scenario.Checker) {}

// Alone returns why it is not played beside other stories.
func (*partition) Alone() string { return "cuts off a cluster" }

func (p *partition) Do(ctx context.Context, c *scenario.Call) error {
	if c.Machines == nil {
		return errNoMachines
	}
	c.UndoWithin("network of "+p.Cluster, repairTimeout, func(ctx context.Context) error { return c.Machines.Repair(ctx, p.Cluster) })
	if err := c.Machines.Partition(ctx, p.Cluster); err != nil {
		return err
	}
	c.Silence(p.Cluster, "its network is cut")
	c.Note(scenario.Lane{Cluster: p.Cluster, Name: "cluster"}, "network cut")
	c.Did("%s disconnected", p.Cluster)
	return nil
}
