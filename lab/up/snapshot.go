package up

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"homelab/lab"
	"homelab/lab/snapshot"
)

// Shelf holds a lab's snapshots.
type Shelf interface {
	Save(ctx context.Context, name string, replace bool, c snapshot.Contents, p lab.Progress) (snapshot.Snapshot, error)
	List(ctx context.Context) ([]snapshot.Snapshot, error)
	Find(ctx context.Context, name string) (snapshot.Snapshot, error)
	Remove(ctx context.Context, names ...string) error
	Clean(ctx context.Context) error
}

// Unpacker puts a snapshot in the place of a lab.
type Unpacker interface {
	Stage(ctx context.Context, o snapshot.Snapshot, p lab.Progress) error
	Place(ctx context.Context, o snapshot.Snapshot, p lab.Progress) (ids map[string]string, err error)
	Start(ctx context.Context, o snapshot.Snapshot, network string) error
}

// Snapshots are what a lab was.
type Snapshots interface {
	Shelf
	Unpacker
}

// SaveSnapshot puts the lab aside as it is. One that is not whole is refused.
func (l *Lab) SaveSnapshot(ctx context.Context, name string, replace bool, p lab.Progress) (snapshot.Snapshot, error) {
	contents := snapshot.Contents{Clusters: map[string][]string{}}
	states, err := l.Clusters.Observe(ctx)
	if err != nil {
		return snapshot.Snapshot{}, err
	}
	f, err := l.Forge.Observe(ctx)
	if err != nil {
		return snapshot.Snapshot{}, err
	}
	partial := func(what string) error {
		return &lab.Error{Exit: lab.ExitFailed, Code: "partial", Message: "the lab is not whole: " + what, Cure: "lab up goes on with it"}
	}
	if name := l.Dir.Restoring(); name != "" {
		return snapshot.Snapshot{}, partial("the restore of snapshot " + name + " has not ended")
	}
	for _, c := range states {
		if c.Attached {
			continue
		}
		if c.Made != lab.MadeWhole || c.Gone > 0 {
			return snapshot.Snapshot{}, partial("cluster " + c.Name + " is " + c.Standing())
		}
		contents.Clusters[c.Name] = c.Nodes
	}
	switch {
	case len(contents.Clusters) == 0:
		return snapshot.Snapshot{}, partial("it has no cluster")
	case !f.Exists:
		return snapshot.Snapshot{}, partial("its forge is absent")
	}
	if contents.Subnet, err = l.Clusters.Subnet(ctx); err != nil {
		return snapshot.Snapshot{}, err
	}
	contents.Others = []string{lab.ForgeName(l.Name)}
	if contents.Files, err = l.Dir.Export(); err != nil {
		return snapshot.Snapshot{}, err
	}
	return l.Snapshots.Save(ctx, name, replace, contents, p)
}

// Pending names the snapshot that a run begins with: the one that a restore which has not ended is about, or the one that was asked for; empty for none.
// resumed reports the former. A snapshot does not take the place of a lab that is there, for which restore is the command.
func (l *Lab) Pending(ctx context.Context, from, restore string) (name string, resumed bool, err error) {
	pending := l.Dir.Restoring()
	name = cmp.Or(from, pending)
	if name == "" || pending != "" {
		return name, pending == name && name != "", nil
	}
	states, err := l.Clusters.Observe(ctx)
	if err != nil || len(states) == 0 {
		return name, false, err
	}
	return name, false, &lab.Error{
		Exit: lab.ExitInvalid, Code: "exists", Message: "lab " + l.Name + " is there, nothing was touched", Cure: "to have a snapshot in its place: " + restore,
	}
}

// Held are the options of a run that is about the clusters of a snapshot alone.
func Held(est *lab.Estate, o snapshot.Snapshot) Options {
	var options Options
	for _, c := range est.Clusters {
		if _, ok := o.Clusters[c.Name]; ok || c.Provider == lab.ProviderExisting {
			options.Clusters = append(options.Clusters, c)
		} else {
			options.Others = true
		}
	}
	return options
}

// Restore puts a snapshot in the place of what there is of the lab, and starts its containers. What takes time and room is done first, beside the lab that there
// is; from then on a note in the state folder has the next run go on. The lab's files, credentials among them, are others afterwards.
func (l *Lab) Restore(ctx context.Context, name string, p lab.Progress) (snapshot.Snapshot, error) {
	o, err := l.Snapshots.Find(ctx, name)
	if err != nil {
		return o, err
	}
	if err := l.Snapshots.Stage(ctx, o, p); err != nil {
		return o, err
	}
	if err := l.Dir.SaveRestoring(o.Name); err != nil {
		return o, err
	}
	p("removing what is there")
	states, err := l.Clusters.Observe(ctx)
	if err == nil {
		err = l.clear(ctx, states)
	}
	if err != nil {
		return o, err
	}
	if err := l.Clusters.EnsureSubnet(ctx, o.Subnet); err != nil {
		return o, err
	}
	ids, err := l.Snapshots.Place(ctx, o, p)
	if err != nil {
		return o, err
	}
	if err := l.reinstate(o, ids); err != nil {
		return o, err
	}
	p("starting the containers")
	if err := l.Snapshots.Start(ctx, o, lab.NetworkName(l.Name)); err != nil {
		return o, err
	}
	return o, l.Dir.SaveRestoring("")
}

// reinstate puts lab's files back, with the records of clusters whose containers have new ids.
func (l *Lab) reinstate(o snapshot.Snapshot, ids map[string]string) error {
	if err := l.Dir.Import(o.Files); err != nil {
		return err
	}
	for name, nodes := range o.Clusters {
		r := l.Dir.Cluster(name)
		r.Nodes = nil
		for _, n := range nodes {
			id, ok := ids[n]
			if !ok {
				return fmt.Errorf("snapshot %s: node %s of cluster %s is missing", o.Name, n, name)
			}
			r.Nodes = append(r.Nodes, id)
		}
		slices.Sort(r.Nodes)
		if err := l.Dir.SaveCluster(name, r); err != nil {
			return err
		}
	}
	return nil
}
