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
)

// downLimit bounds the removal of one thing.
const downLimit = 2 * time.Minute

// DownOptions say what goes with a lab.
type DownOptions struct {
	Existed   bool     // there was a lab, whatever became of its record since
	Snapshots bool     // they go, too
	Abandon   []string // attached clusters in which everything stays as it is
}

// Removal is what became of a lab's things.
type Removal struct {
	Removed []string
	Kept    []string // snapshots, newest first
	Stays   []string // in clusters that live on, in words
}

// Remove removes the lab with its state folder, and its snapshots where they are to go.
func (l *Lab) Remove(ctx context.Context, o DownOptions, p lab.Progress) (Removal, error) {
	if err := l.Containers.Answers(ctx); err != nil {
		if !o.Existed { // no lab, no engine: nothing is left to remove
			return Removal{}, l.Dir.Remove()
		}
		return Removal{}, &lab.Error{
			Exit: lab.ExitFailed, Code: "no_engine", Message: "the docker engine does not answer, so the lab's containers cannot be removed",
			Cure: "start it and run lab down again", Err: err,
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

// Leaving looks at what there is of the lab, and returns the steps by which it goes.
func (l *Lab) Leaving(ctx context.Context, o DownOptions) ([]lab.Step, error) {
	there, err := l.there(ctx, o)
	if err != nil {
		return nil, err
	}
	return plan.Down(there), nil
}

func (l *Lab) there(ctx context.Context, o DownOptions) (plan.Standing, error) {
	s := plan.Standing{Clusters: map[string]lab.ClusterState{}, Abandon: o.Abandon}
	states, err := l.Clusters.Observe(ctx)
	if err != nil {
		return s, err
	}
	for _, c := range states {
		s.Clusters[c.Name] = c
	}
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
	s.Network, err = l.Clusters.HasNetwork(ctx)
	return s, err
}

// Down removes what carries the lab's name and label: first what the engine brought to clusters that live on, then clusters and forge side by side, then the
// network that held them. It returns what was there and what became of it. Whole snapshots stay.
func (l *Lab) Down(ctx context.Context, o DownOptions, p lab.Progress) (removed, stays []string, err error) {
	there, err := l.there(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	d := &leaving{Lab: l, there: there}
	steps := plan.Down(there)
	events := func(e lab.Event) {
		if e.State == lab.StepRunning {
			if e.Detail == e.Step.Reason {
				e.Detail = "removing " + l.thing(e.Step)
			}
			p(e.Detail)
		}
	}
	res, err := apply.Runner{Events: events, Executors: map[string]apply.Executor{
		plan.KindEngine: d.withdraw, plan.KindCluster: d.cluster, plan.KindForge: d.forge, plan.KindNetwork: d.network,
	}}.Run(ctx, steps)
	for i, s := range steps {
		if res.Steps[i].Result == gone {
			removed = append(removed, l.thing(s))
		}
	}
	if err == nil && !there.Network {
		err = l.Snapshots.Clean(ctx)
	}
	return removed, d.stays, err
}

// gone is the detail of a step that removed what it is about.
const gone = "gone"

// thing is what a step of Down is about, as a user reads it.
func (l *Lab) thing(s lab.Step) string {
	switch s.Kind {
	case plan.KindForge:
		return "forge " + lab.ForgeName(l.Name)
	case plan.KindNetwork:
		return "network " + lab.NetworkName(l.Name)
	case plan.KindEngine:
		return "what the engine brought to clusters that live on"
	}
	return s.Title()
}

// leaving is a lab that goes.
type leaving struct {
	*Lab
	there plan.Standing
	stays []string // in clusters that live on, in words; written by the step engine alone
}

// withdraw has the engine take back what it brought to clusters that live on.
func (d *leaving) withdraw(ctx context.Context, _ lab.Step, p lab.Progress) (apply.Outcome, error) {
	names := plan.Attached(d.there)
	abandon := "lab down --abandon " + strings.Join(names, ",") + " leaves there what is there"
	spokes := map[string]*rest.Config{}
	for _, name := range names {
		if c := d.there.Clusters[name]; !c.Answers {
			return apply.Outcome{}, outlives(c, "make it answer and run lab down again, or lab down --abandon "+name+" leaves there what is there")
		}
		spoke, err := d.Clusters.RESTConfig(name)
		if err != nil {
			return apply.Outcome{}, err
		}
		spokes[name] = spoke
	}
	e, err := d.standingEngine(ctx)
	if err == nil && e == nil {
		return apply.Outcome{Detail: "nothing to take back"}, nil
	}
	if err != nil {
		return apply.Outcome{}, &lab.Error{
			Exit: lab.ExitFailed, Code: "no_engine", Message: "the engine cannot take back what it brought to " + strings.Join(names, ", "), Err: err,
			Cure: "lab up mends the hub; or " + abandon,
		}
	}
	d.stays, err = e.Withdraw(ctx, spokes, p)
	return apply.Outcome{Detail: "taken back"}, err
}

// outlives refuses to forget a cluster that lives on and does not answer: what the engine brought there could never be taken back.
func outlives(c lab.ClusterState, cure string) error {
	return &lab.Error{Exit: lab.ExitFailed, Code: "unreachable", Message: "cluster " + c.Name + " lives on, and nothing can be taken back from it: " + c.Fault, Cure: cure}
}

// standingEngine finds the engine without an estate; nil where there never was one: the lab's first run ended before anything was registered.
func (d *leaving) standingEngine(ctx context.Context) (Engine, error) {
	record, err := d.Dir.Load()
	if err != nil {
		return nil, err
	}
	if record.Engine != "" {
		err = errors.New("no hub is there")
	}
	for _, name := range slices.Sorted(maps.Keys(d.there.Clusters)) {
		c := d.there.Clusters[name]
		if c.Attached || c.Made == lab.MadeHalf { // an engine comes to clusters that are whole alone
			continue
		}
		if !c.Answers {
			err = fmt.Errorf("cluster %s is %s", name, c.Standing())
			continue
		}
		e, cerr := d.engineOn(name)
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

func (d *leaving) cluster(ctx context.Context, s lab.Step, _ lab.Progress) (apply.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, downLimit)
	defer cancel()
	if slices.Contains(d.there.Abandon, s.Cluster) {
		return apply.Outcome{Detail: gone}, d.Clusters.Forget(ctx, s.Cluster)
	}
	return apply.Outcome{Detail: gone}, d.Clusters.Delete(ctx, s.Cluster)
}

func (d *leaving) forge(ctx context.Context, _ lab.Step, _ lab.Progress) (apply.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, downLimit)
	defer cancel()
	return apply.Outcome{Detail: gone}, d.Forge.Remove(ctx)
}

func (d *leaving) network(ctx context.Context, _ lab.Step, _ lab.Progress) (apply.Outcome, error) {
	if err := d.Snapshots.Clean(ctx); err != nil {
		return apply.Outcome{}, err
	}
	return apply.Outcome{Detail: gone}, d.Clusters.RemoveNetwork(ctx)
}

// clear removes the lab's own clusters and the forge, side by side.
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
	return group.Wait()
}
