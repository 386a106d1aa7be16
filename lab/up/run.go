package up

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"homelab/lab"
	"homelab/lab/apply"
	"homelab/lab/plan"
	"homelab/lab/state"
)

// Options configures a run.
type Options struct {
	Clusters  []lab.Cluster // clusters in scope, including the hub; valid only with Others
	Others    bool          // leave clusters outside Clusters unchanged
	From      string        // snapshot to start from if the lab is down; empty for none
	Prune     bool          // delete clusters that left the estate
	Survey    bool          // report what the run changed, also if it keeps the engine's version
	Switch    bool          // replace an engine of another type
	Recreate  []string      // clusters to delete and recreate
	Timeout   time.Duration // for addons to converge: how long nothing may move
	Preflight string        // result of the machine checks
	PruneBy   string        // command shown as the way to delete clusters that left the estate
	Deleting  Deleting
}

// Plan returns the steps from the observed to the desired state.
func (l *Lab) Plan(ctx context.Context, o Options, s *Seen) []lab.Step {
	return plan.Build(l.desired(ctx, o, s.Observed), s.Observed)
}

// Left returns the clusters and parts that left the estate and are kept.
func (l *Lab) Left(ctx context.Context, o Options, s *Seen) []string {
	if o.Prune {
		return nil
	}
	d := l.desired(ctx, o, s.Observed)
	return append(plan.Left(d, s.Observed), plan.LeftParts(d, s.Observed)...)
}

// Allowed returns an error if the steps destroy anything not confirmed in o.
func Allowed(o Options, steps []lab.Step) error {
	for _, s := range steps {
		if s.Kind == plan.KindCluster && s.Reason == plan.ReasonProvider {
			return &lab.Error{
				Exit: lab.ExitFailed, Code: "provider", Message: "spec.provider changed in " + s.Cluster + ", which requires another cluster",
				Cure: "undo the change, or give the new one another name: lab up --prune removes what left the estate",
			}
		}
	}
	names := slices.DeleteFunc(plan.Remade(steps), func(name string) bool { return slices.Contains(o.Recreate, name) })
	if len(names) == 0 {
		return nil
	}
	e := &lab.Error{
		Exit: lab.ExitFailed, Code: "recreate",
		Message: plan.Changed(steps, names) + ", and kind cannot change an existing cluster",
		Cure:    "undo the change, or recreate it and lose its contents: lab up --recreate " + lab.Quote(strings.Join(names, ",")),
	}
	for _, s := range steps {
		if slices.Contains(names, s.Cluster) && s.Loses != "" {
			e.Details = append(e.Details, "would lose "+s.Loses)
		}
	}
	return e
}

// Remember restores lost records of complete clusters and records the container engine, the optional parts and commits that only the forge has. It writes only to the state folder.
func (l *Lab) Remember(ctx context.Context, s *Seen) error {
	if err := l.recordMachine(s.docker); err != nil {
		return err
	}
	if err := l.Dir.SaveLosing(false); err != nil {
		return err
	}
	for name, c := range s.Clusters {
		if c.Made == lab.MadeWhole && !c.Recorded && c.Gone == 0 {
			if err := l.Clusters.Record(ctx, name, c.Inputs); err != nil {
				return err
			}
		}
	}
	if err := l.recordParts(s); err != nil {
		return err
	}
	if s.aheadKnown {
		return l.recordForge(s.forge.Revision, s)
	}
	return nil
}

func (l *Lab) recordForge(head string, s *Seen) error {
	r := state.Forge{Head: head, Commits: []state.ForgeCommit{}}
	for _, c := range s.ahead {
		subject, _, _ := strings.Cut(c.Message, "\n")
		r.Commits = append(r.Commits, state.ForgeCommit{Hash: c.Hash, Author: c.Author, When: c.When, Subject: subject})
	}
	return l.Dir.SaveForge(r)
}

// run holds the executors of one run and the state shared between its steps.
type run struct {
	*Lab
	options  Options
	seen     *Seen
	only     []string // clusters whose applications are waited for; nil for all
	expected []string
	gone     []string
	loads    singleflight.Group // keyed by image

	mu    sync.Mutex
	since map[string]time.Time // cluster -> last start

	commit string            // the forge's: as observed, or as pushed by step estate; read by step addons, which depends on it
	heads  map[string]string // the same for mirrors
}

// Apply carries out the steps returned by Plan.
func (l *Lab) Apply(ctx context.Context, o Options, s *Seen, steps []lab.Step, events func(lab.Event)) (apply.Result, error) {
	if err := Allowed(o, steps); err != nil {
		return apply.Result{}, err
	}
	r := &run{
		Lab: l, options: o, seen: s, commit: s.forge.Revision, heads: maps.Clone(s.heads), only: l.waitedFor(o, s), since: startTimes(s.Clusters),
		expected: s.Expected, gone: applicationNames(l.disabled(l.clusters(o))),
	}
	return apply.Runner{Executors: r.executors(), Events: events}.Run(ctx, steps)
}

func (r *run) executors() map[string]apply.Executor {
	all := map[string]apply.Executor{
		plan.KindImages:  r.doImages,
		plan.KindNetwork: r.doNetwork,
		plan.KindForge:   r.doForge,
		plan.KindCluster: r.doCluster,
		plan.KindRetire:  r.doRetire,
		plan.KindEngine:  r.doEngine,
		plan.KindEstate:  r.doEstate,
		plan.KindBridge:  r.doBridge,
		plan.KindAddons:  r.doAddons,
	}
	for _, part := range r.Parts {
		all[part.Name] = r.doPart
	}
	return all
}

// Summary returns a one-line summary of changes.
func Summary(changes []string) string {
	switch len(changes) {
	case 0:
		return "unchanged"
	case 1:
		return changes[0]
	case 2:
		return changes[0] + ", " + changes[1]
	}
	return fmt.Sprintf("%s and %d more", changes[0], len(changes)-1)
}
