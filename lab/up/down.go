package up

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"homelab/lab"
)

// downLimit bounds the removal of one thing.
const downLimit = 2 * time.Minute

// DownOptions say what goes with a lab.
type DownOptions struct {
	Existed   bool // there was a lab, whatever became of its record since
	Snapshots bool // they go, too
}

// Removal is what became of a lab's things.
type Removal struct {
	Removed []string
	Kept    []string // snapshots, newest first
}

// Remove removes the lab with its state folder, and its snapshots where they are to go.
func (l *Lab) Remove(ctx context.Context, o DownOptions, p lab.Progress) (Removal, error) {
	removed, err := l.Down(ctx, p)
	if err != nil {
		return Removal{}, err
	}
	r := Removal{Removed: removed}
	list, err := l.Snapshots.List(ctx)
	if err != nil {
		return r, err
	}
	for _, s := range list {
		r.Kept = append(r.Kept, s.Name)
	}
	if o.Snapshots && len(r.Kept) > 0 {
		if err := l.Snapshots.Remove(ctx, r.Kept...); err != nil {
			return r, err
		}
		for _, name := range r.Kept {
			r.Removed = append(r.Removed, "snapshot "+name)
		}
		r.Kept = nil
	}
	if o.Existed {
		r.Removed = append(r.Removed, "folder "+l.Dir.Path)
	}
	return r, l.Dir.Remove()
}

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
