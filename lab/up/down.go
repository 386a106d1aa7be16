package up

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"homelab/lab"
)

// downLimit bounds the removal of one thing.
const downLimit = 2 * time.Minute

// Down removes what carries the lab's name and label, clusters and forge side by side, then the network that held them. It returns what was there. Whole snapshots
// stay.
func (l *Lab) Down(ctx context.Context, p lab.Progress) ([]string, error) {
	states, err := l.Clusters.Observe(ctx)
	if err != nil {
		return nil, err
	}
	forge, err := l.Forge.Observe(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, downLimit)
	defer cancel()
	var removed []string
	for _, st := range states {
		removed = append(removed, "cluster "+st.Name)
		p("removing cluster " + st.Name)
	}
	if forge.Exists {
		removed = append(removed, "forge "+lab.ForgeName(l.Name))
		p("removing the forge")
	}
	if err := l.clear(ctx, states); err != nil {
		return removed, err
	}
	if err := l.Snapshots.Clean(ctx); err != nil {
		return removed, err
	}
	had, err := l.Clusters.HasNetwork(ctx)
	if err != nil {
		return removed, err
	}
	if had {
		removed = append(removed, "network "+lab.NetworkName(l.Name))
		err = l.Clusters.RemoveNetwork(ctx)
	}
	return removed, err
}

// clear removes clusters and forge, side by side.
func (l *Lab) clear(ctx context.Context, states []lab.ClusterState) error {
	ctx, cancel := context.WithTimeout(ctx, downLimit)
	defer cancel()
	var group errgroup.Group
	for _, c := range states {
		group.Go(func() error { return l.Clusters.Delete(ctx, c.Name) })
	}
	group.Go(func() error { return l.Forge.Remove(ctx) })
	return group.Wait()
}
