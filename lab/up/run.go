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

// Options of a run.
type Options struct {
	Clusters  []lab.Cluster // those that the run is about, the hub among them; read with Others alone
	Others    bool          // leave what Clusters does not name as it is
	From      string        // snapshot that a lab which is down begins with; empty for none
	Prune     bool          // remove the clusters that left the estate
	Recreate  []string      // remove these clusters and make them again
	Timeout   time.Duration // for the addons to converge
	Preflight string        // what the checks of the machine found
	PruneBy   string        // command that removes the clusters that left the estate, for who is told that they are kept
}

// Plan is the way from what was seen to what should be.
func (l *Lab) Plan(ctx context.Context, o Options, s *Seen) []lab.Step {
	return plan.Build(l.desired(ctx, o, s.Observed), s.Observed)
}

// Left names the clusters that left the estate and are kept.
func (l *Lab) Left(ctx context.Context, o Options, s *Seen) []string {
	if o.Prune {
		return nil
	}
	return plan.Left(l.desired(ctx, o, s.Observed), s.Observed)
}

// Allowed refuses a plan that destroys what nobody asked to destroy.
func Allowed(o Options, steps []lab.Step) error {
	for _, s := range steps {
		if s.Kind == plan.KindCluster && s.Reason == plan.ReasonProvider {
			return &lab.Error{
				Exit: lab.ExitFailed, Code: "provider", Message: "spec.provider changed in " + s.Cluster + ", and one cluster does not become another",
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
		Message: "spec.kind changed in " + strings.Join(names, ", ") + ", and kind cannot change a cluster that runs",
		Cure:    "undo the change, or lose what runs there: lab up --recreate " + strings.Join(names, ","),
	}
	for _, s := range steps {
		if slices.Contains(names, s.Cluster) && s.Loses != "" {
			e.Details = append(e.Details, "would lose "+s.Loses)
		}
	}
	return e
}

// Remember writes down what was seen to be whole, where lab's own record of it was lost, and what only the forge holds. It touches nothing but lab's own files.
func (l *Lab) Remember(ctx context.Context, s *Seen) error {
	for name, c := range s.Clusters {
		if c.Made == lab.MadeWhole && !c.Recorded && c.Gone == 0 {
			if err := l.Clusters.Record(ctx, name, c.Inputs); err != nil {
				return err
			}
		}
	}
	if s.asked {
		return l.rememberForge(s.forge.Revision, s)
	}
	return nil
}

func (l *Lab) rememberForge(head string, s *Seen) error {
	r := state.Forge{Head: head, Commits: []state.ForgeCommit{}}
	for _, c := range s.only {
		subject, _, _ := strings.Cut(c.Message, "\n")
		r.Commits = append(r.Commits, state.ForgeCommit{Hash: c.Hash, Author: c.Author, When: c.When, Subject: subject})
	}
	return l.Dir.SaveForge(r)
}

// run is one run: the executors of its steps, and what one hands to the next.
type run struct {
	*Lab
	options  Options
	seen     *Seen
	only     []string // clusters whose applications are waited for; nil for all
	expected []string
	gone     []string
	loads    singleflight.Group // by image

	mu    sync.Mutex
	since map[string]time.Time // cluster -> when it was started last

	commit string            // of the forge: as seen, or as step estate pushed it; read by addons, which needs that
	heads  map[string]string // likewise of mirrors
}

// Apply carries out a plan of Plan.
func (l *Lab) Apply(ctx context.Context, o Options, s *Seen, steps []lab.Step, events func(lab.Event)) (apply.Result, error) {
	if err := Allowed(o, steps); err != nil {
		return apply.Result{}, err
	}
	r := &run{
		Lab: l, options: o, seen: s, commit: s.forge.Revision, heads: maps.Clone(s.heads), only: l.waitedFor(o, s), since: starts(s.Clusters),
		expected: s.Expected, gone: applicationNames(l.unasked(l.clusters(o))),
	}
	return apply.Runner{Executors: r.executors(), Events: events}.Run(ctx, steps)
}

func (r *run) executors() map[string]apply.Executor {
	return map[string]apply.Executor{
		plan.KindImages:  r.doImages,
		plan.KindNetwork: r.doNetwork,
		plan.KindForge:   r.doForge,
		plan.KindCluster: r.doCluster,
		plan.KindEngine:  r.doEngine,
		plan.KindEstate:  r.doEstate,
		plan.KindBridge:  r.doBridge,
		plan.KindAddons:  r.doAddons,
	}
}

// Summary is one line for a list of changes.
func Summary(changes []string) string {
	switch len(changes) {
	case 0:
		return "as it was"
	case 1:
		return changes[0]
	case 2:
		return changes[0] + ", " + changes[1]
	}
	return fmt.Sprintf("%s and %d more", changes[0], len(changes)-1)
}
