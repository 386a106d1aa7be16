package up

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/apply"
	"homelab/lab/plan"
	"homelab/lab/snapshot"
)

// downLimit bounds the removal of one resource.
const downLimit = 2 * time.Minute

// DownOptions configures Remove and Down.
type DownOptions struct {
	Existed   bool     // the lab existed, with or without its record
	Snapshots bool     // remove snapshots, too
	Abandon   []string // attached clusters to leave unchanged
	Lose      Consent  // to the loss of what only the forge has
}

// Removal is the result of Remove.
type Removal struct {
	Removed []string
	Kept    []string // snapshots, newest first
	Stays   []string // left in attached clusters, human-readable
}

// Remove deletes the lab, its state folder and, with o.Snapshots, its snapshots.
func (l *Lab) Remove(ctx context.Context, o DownOptions, p lab.Progress) (Removal, error) {
	if err := l.Containers.Answers(ctx); err != nil {
		e := &lab.Error{
			Exit: lab.ExitFailed, Code: "no_engine", Message: "the lab's containers cannot be removed", Cure: "start the docker engine and run lab down again", Err: err,
		}
		if !o.Existed { // the state folder may be lost, and the containers not
			e.Message = "whether there is a lab " + l.Name + " is unknown"
			return Removal{}, errors.Join(e, l.Dir.Remove()) // only the lock
		}
		return Removal{}, e
	}
	if o.Snapshots {
		list, err := l.Snapshots.List(ctx)
		if err == nil {
			err = l.mayRemove(ctx, namesOf(list), o.Lose, p)
		}
		if err != nil {
			return Removal{}, err
		}
	}
	removed, stays, err := l.Down(ctx, o, p)
	r := Removal{Removed: removed, Stays: stays}
	if err != nil {
		return r, err
	}
	list, err := l.Snapshots.List(ctx)
	if err != nil {
		return r, err
	}
	r.Kept = namesOf(list)
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

func namesOf(list []snapshot.Snapshot) []string {
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
	}
	return names
}

// Leaving returns the plan of Down, and what is lost with the forge. It starts nothing to find out.
func (l *Lab) Leaving(ctx context.Context, o DownOptions) ([]lab.Step, Losing, error) {
	remaining, err := l.remaining(ctx, o)
	if err != nil {
		return nil, Losing{}, err
	}
	losing, err := l.Losing(ctx, false)
	if err == nil && !losing.None() {
		remaining.Loses = losing.String()
	}
	return plan.Down(remaining), losing, err
}

func (l *Lab) remaining(ctx context.Context, o DownOptions) (plan.Remains, error) {
	s := plan.Remains{Abandon: o.Abandon}
	if _, err := l.machine(ctx); err != nil {
		return s, err
	}
	states, err := l.Clusters.Observe(ctx)
	if err != nil {
		return s, err
	}
	s.Clusters = byName(states)
	for _, name := range o.Abandon {
		if !s.Clusters[name].Attached {
			return s, &lab.Error{
				Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("--abandon: the lab has attached no cluster %q", name),
				Cure: "lab down --dry-run names the clusters that are released",
			}
		}
	}
	forge, err := l.Forge.Observe(ctx)
	if err != nil {
		return s, err
	}
	s.Forge = forge.Exists || forge.Volume
	if s.Parts, err = l.standingParts(ctx); err != nil {
		return s, err
	}
	s.Network, err = l.Clusters.HasNetwork(ctx)
	return s, err
}

// Down deletes every resource labelled with the lab's name: first what the engine installed in attached clusters, then clusters and forge in parallel, then the
// network. It returns the removed resources and those left in attached clusters. Complete snapshots are kept. Without consent, it touches nothing if the forge has
// something of others.
func (l *Lab) Down(ctx context.Context, o DownOptions, p lab.Progress) (removed, stays []string, err error) {
	remaining, err := l.remaining(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	if remaining.Forge {
		if err := l.mayLose(ctx, o.Lose, p); err != nil {
			return nil, nil, err
		}
	}
	d := &teardown{Lab: l, remaining: remaining}
	steps := plan.Down(remaining)
	events := func(e lab.Event) {
		if e.State == lab.StepRunning {
			if e.Detail == e.Step.Reason {
				e.Detail = "removing " + l.resourceName(e.Step)
			}
			p(e.Detail)
		}
	}
	executors := map[string]apply.Executor{plan.KindEngine: d.withdraw, plan.KindCluster: d.cluster, plan.KindForge: d.forge, plan.KindNetwork: d.network}
	for _, part := range remaining.Parts {
		executors[part.Name] = d.removePart
	}
	res, err := apply.Runner{Events: events, Executors: executors}.Run(ctx, steps)
	for i, s := range steps {
		if res.Steps[i].Result == gone {
			removed = append(removed, l.resourceName(s))
		}
	}
	if err == nil && !remaining.Network {
		err = l.Snapshots.Clean(ctx)
	}
	return removed, d.stays, err
}

// gone is the detail of a step that removed its resource.
const gone = "gone"

// resourceName returns the human-readable name of the resource that a step of Down removes.
func (l *Lab) resourceName(s lab.Step) string {
	switch s.Kind {
	case plan.KindForge:
		return "forge " + lab.ForgeName(l.Name)
	case plan.KindNetwork:
		return "network " + lab.NetworkName(l.Name)
	case plan.KindEngine:
		return "the engine's objects in attached clusters"
	}
	if _, ok := l.part(s.Kind); ok {
		return s.Kind + " " + lab.PartName(l.Name, s.Kind)
	}
	return s.Title()
}

// teardown carries out one Down.
type teardown struct {
	*Lab
	remaining plan.Remains
	stays     []string // left in attached clusters, human-readable; written only by the engine step
}

// withdraw has the engine remove its objects from attached clusters.
func (d *teardown) withdraw(ctx context.Context, _ lab.Step, p lab.Progress) (apply.Outcome, error) {
	names := plan.Attached(d.remaining)
	abandon := "lab down --abandon " + lab.Quote(strings.Join(names, ",")) + " leaves it unchanged"
	spokes := map[string]*rest.Config{}
	for _, name := range names {
		if c := d.remaining.Clusters[name]; !c.Answers {
			return apply.Outcome{}, unreachableError(c, "make it reachable and run lab down again, or lab down --abandon "+lab.Quote(name)+" leaves it unchanged")
		}
		spoke, err := d.Clusters.RESTConfig(name)
		if err != nil {
			return apply.Outcome{}, err
		}
		spokes[name] = spoke
	}
	e, err := d.standingEngine(ctx, d.remaining.Clusters)
	if err == nil && e == nil {
		return apply.Outcome{Detail: "nothing to remove"}, nil
	}
	if err != nil {
		return apply.Outcome{}, &lab.Error{
			Exit: lab.ExitFailed, Code: "no_engine", Message: "the engine cannot remove its objects from " + strings.Join(names, ", "), Err: err,
			Cure: "run lab up, which repairs the hub; or " + abandon,
		}
	}
	d.stays, err = e.Withdraw(ctx, spokes, p)
	return apply.Outcome{Detail: "removed from attached clusters"}, err
}

// unreachableError returns the error for an attached cluster that does not answer. Forgetting the cluster would orphan what the engine installed there.
func unreachableError(c lab.ClusterState, cure string) error {
	return &lab.Error{Exit: lab.ExitFailed, Code: "unreachable", Message: "cluster " + c.Name + " outlives the lab, but the engine's objects cannot be removed from it: " + c.Fault, Cure: cure}
}

// standingEngine returns the engine without an estate, or nil if the lab's first run ended before anything was registered.
func (l *Lab) standingEngine(ctx context.Context, clusters map[string]lab.ClusterState) (Engine, error) {
	record, err := l.Dir.Load()
	if err != nil {
		return nil, err
	}
	if record.Type != "" {
		err = errors.New("no hub")
	}
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		c := clusters[name]
		if c.Attached || c.Made == lab.MadeHalf { // only complete clusters can have an engine
			continue
		}
		if !c.Answers {
			err = fmt.Errorf("cluster %s is %s", name, c.Phase())
			continue
		}
		e, cerr := l.engineOn(name)
		if cerr != nil {
			err = cerr
			continue
		}
		if s, oerr := e.Observe(ctx); oerr != nil {
			err = oerr
		} else if len(s.Registrations) > 0 || s.Revision > 0 {
			return e, nil
		}
	}
	return nil, err
}

func (d *teardown) cluster(ctx context.Context, s lab.Step, _ lab.Progress) (apply.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, downLimit)
	defer cancel()
	if slices.Contains(d.remaining.Abandon, s.Cluster) {
		return apply.Outcome{Detail: gone}, d.Clusters.Forget(ctx, s.Cluster)
	}
	return apply.Outcome{Detail: gone}, d.Clusters.Delete(ctx, s.Cluster)
}

func (d *teardown) forge(ctx context.Context, _ lab.Step, _ lab.Progress) (apply.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, downLimit)
	defer cancel()
	return apply.Outcome{Detail: gone}, d.Forge.Remove(ctx)
}

func (d *teardown) removePart(ctx context.Context, s lab.Step, _ lab.Progress) (apply.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, downLimit)
	defer cancel()
	part, _ := d.part(s.Kind)
	return apply.Outcome{Detail: gone}, part.Service.Remove(ctx)
}

func (d *teardown) network(ctx context.Context, _ lab.Step, _ lab.Progress) (apply.Outcome, error) {
	if err := d.Snapshots.Clean(ctx); err != nil {
		return apply.Outcome{}, err
	}
	return apply.Outcome{Detail: gone}, d.Clusters.RemoveNetwork(ctx)
}

// clear deletes the lab's own clusters, the forge and the other parts in parallel.
func (l *Lab) clear(ctx context.Context, states []lab.ClusterState) error {
	ctx, cancel := context.WithTimeout(ctx, downLimit)
	defer cancel()
	var group errgroup.Group
	for _, c := range states {
		if !c.Attached {
			group.Go(func() error { return l.Clusters.Delete(ctx, c.Name) })
		}
	}
	group.Go(func() error { return l.Forge.Remove(ctx) })
	for _, part := range l.Parts {
		group.Go(func() error { return part.Service.Remove(ctx) })
	}
	return group.Wait()
}
