package up

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"homelab/lab"
	"homelab/lab/snapshot"
	"homelab/lab/state"
)

// Shelf stores a lab's snapshots.
type Shelf interface {
	Save(ctx context.Context, name string, replace bool, c snapshot.Contents, p lab.Progress) (snapshot.Snapshot, error)
	List(ctx context.Context) ([]snapshot.Snapshot, error)
	Find(ctx context.Context, name string) (snapshot.Snapshot, error)
	Remove(ctx context.Context, names ...string) error
	Clean(ctx context.Context) error
}

// Unpacker replaces a lab with a snapshot.
type Unpacker interface {
	Stage(ctx context.Context, o snapshot.Snapshot, p lab.Progress) error
	Place(ctx context.Context, o snapshot.Snapshot, p lab.Progress) (ids map[string]string, err error)
	Start(ctx context.Context, o snapshot.Snapshot, network string) error
}

// Snapshots stores and restores snapshots.
type Snapshots interface {
	Shelf
	Unpacker
}

// SaveSnapshot saves the lab as a snapshot. It returns an error if the lab is incomplete, and without consent if replacing one would lose what others put there.
func (l *Lab) SaveSnapshot(ctx context.Context, name string, replace bool, lose Consent, p lab.Progress) (Saved, error) {
	contents := snapshot.Contents{Clusters: map[string][]string{}}
	states, err := l.Clusters.Observe(ctx)
	if err != nil {
		return Saved{}, err
	}
	f, err := l.Forge.Observe(ctx)
	if err != nil {
		return Saved{}, err
	}
	parts, err := l.partsStatus(ctx)
	if err != nil {
		return Saved{}, err
	}
	parts = slices.DeleteFunc(parts, func(p PartStatus) bool { return p.Passing })
	partial := func(what string) error {
		return &lab.Error{Exit: lab.ExitFailed, Code: "partial", Message: "the lab is incomplete: " + what, Cure: "lab up completes it"}
	}
	if name := l.Dir.Restoring(); name != "" {
		return Saved{}, partial("the restore of snapshot " + name + " has not ended")
	}
	for _, c := range states {
		if c.Attached {
			continue
		}
		if c.Made != lab.MadeWhole || c.Gone > 0 {
			return Saved{}, partial("cluster " + c.Name + " is " + c.Phase())
		}
		contents.Clusters[c.Name] = c.Nodes
	}
	switch {
	case len(contents.Clusters) == 0:
		return Saved{}, partial("it has no cluster")
	case !f.Exists:
		return Saved{}, partial("its forge is absent")
	}
	for _, part := range parts {
		if !part.State.Exists {
			return Saved{}, partial("its " + part.Name + " is absent")
		}
	}
	if contents.Subnet, err = l.Clusters.Subnet(ctx); err != nil {
		return Saved{}, err
	}
	if replace {
		if err := l.mayRemove(ctx, []string{name}, lose, p); err != nil {
			return Saved{}, err
		}
	}
	losing, err := l.losing(ctx, f, false)
	if err != nil {
		return Saved{}, err
	}
	contents.Others, contents.Foreign = []string{lab.ForgeName(l.Name)}, losing.held()
	for _, part := range parts {
		contents.Others = append(contents.Others, lab.PartName(l.Name, part.Name))
	}
	if contents.Files, err = l.Dir.Export(); err != nil {
		return Saved{}, err
	}
	before := l.running(ctx, states)
	o, err := l.Snapshots.Save(ctx, name, replace, contents, p)
	before.Snapshot = o
	return before, err
}

// Pending returns the snapshot that a run starts from: that of an unfinished restore, with resumed set, else the requested one; empty for none. Requesting
// one while a lab exists is an error, as that is left to the restore command.
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
		Exit: lab.ExitInvalid, Code: "exists", Message: "lab " + l.Name + " already exists, nothing was touched", Cure: "to replace it with a snapshot: " + restore,
	}
}

// Held returns the options of a run limited to the clusters of a snapshot.
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

// Restore replaces the lab with a snapshot and starts its containers. Slow and space-consuming work is staged first, next to the existing lab; from then
// on, a marker in the state folder makes the next run resume. The lab's files, including credentials, are replaced. Without consent, nothing is touched if the forge
// has something of others that the snapshot lacks.
func (l *Lab) Restore(ctx context.Context, name string, lose Consent, p lab.Progress) (snapshot.Snapshot, error) {
	if _, err := l.machine(ctx); err != nil {
		return snapshot.Snapshot{}, err
	}
	o, err := l.Snapshots.Find(ctx, name)
	if err != nil {
		return o, err
	}
	if err := o.Restorable(); err != nil {
		return o, err
	}
	if l.Dir.Restoring() == "" {
		if err := l.mayLose(ctx, lose, p, o.Files[state.ForgeFile]); err != nil {
			return o, err
		}
	}
	if err := l.Snapshots.Stage(ctx, o, p); err != nil {
		return o, err
	}
	if err := l.Dir.SaveRestoring(o.Name); err != nil {
		return o, err
	}
	p("removing the current lab")
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
	if err := l.restoreFiles(o, ids); err != nil {
		return o, err
	}
	p("starting the containers")
	if err := l.Snapshots.Start(ctx, o, lab.NetworkName(l.Name)); err != nil {
		return o, err
	}
	return o, l.Dir.SaveRestoring("")
}

// restoreFiles restores lab's files, with cluster records updated to the new container ids.
func (l *Lab) restoreFiles(o snapshot.Snapshot, ids map[string]string) error {
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
