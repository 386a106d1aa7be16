package up

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/apply"
	"homelab/lab/engine/survey"
	"homelab/lab/plan"
)

// Audience reports the progress of a run and confirms its destructive steps.
type Audience interface {
	Println(line string)
	// Ask asks a yes/no question and lists what yes would destroy. It returns false without an interactive terminal.
	Ask(ctx context.Context, question string, loses []string) (bool, error)
	// Begin is called with the plan before its first step. It returns the handler of step events and a function called after the last step.
	Begin(s *Seen, steps []lab.Step) (events func(lab.Event), end func())
}

// Outcome is the result of a run.
type Outcome struct {
	Clusters     int  // in scope
	Applications int  // present before the run
	Idle         bool // the plan was empty
	Steps        []lab.Step
	Result       apply.Result
	Upgrade      Upgrade
}

// Changed returns the titles of the steps that changed anything.
func (o Outcome) Changed() []string {
	var titles []string
	for _, s := range o.Steps {
		if slices.ContainsFunc(o.Result.Changes, func(c string) bool { return strings.HasPrefix(c, s.ID+": ") }) {
			titles = append(titles, s.Title())
		}
	}
	return titles
}

// Follow reconciles the lab with the estate: it observes, plans, confirms and applies.
func (l *Lab) Follow(ctx context.Context, o Options, a Audience) (Outcome, error) {
	seen, err := l.Observe(ctx, o)
	if err != nil {
		return Outcome{}, err
	}
	if err := l.Unasked(o, seen); err != nil {
		return Outcome{}, err
	}
	if err := l.Contested(seen); err != nil {
		return Outcome{}, err
	}
	for _, line := range seen.ContestsUnknown() {
		a.Println(line)
	}
	for _, line := range seen.Losses() {
		a.Println(line)
	}
	for _, line := range seen.Ending(time.Now()) {
		a.Println(line)
	}
	if err := l.Remember(ctx, seen); err != nil {
		return Outcome{}, err
	}
	steps, err := l.confirm(ctx, &o, seen, a)
	if err != nil {
		return Outcome{}, err
	}
	out := Outcome{Clusters: len(l.clusters(o)), Applications: len(seen.Applications), Idle: !plan.Changes(steps), Steps: steps}
	if out.Idle { // an earlier run may have ended before recording it
		return out, l.recordEngine()
	}
	for _, line := range l.Warnings(seen, steps) {
		a.Println(line)
	}
	var before survey.Survey
	out.Upgrade = l.upgrades(seen, steps)
	if out.Upgrade.To == "" && o.Survey {
		out.Upgrade = l.kept(seen)
	}
	reports := out.Upgrade.To != ""
	if reports {
		if before, err = l.survey(ctx, l.clusters(o), seen); err != nil {
			reports = false
			out.Upgrade.Unknown = []string{l.Estate.Hub().Name + ": " + err.Error()}
			a.Println("upgrade: what it changes is unknown: " + err.Error())
		}
	}
	events, end := a.Begin(seen, steps)
	out.Result, err = l.Apply(ctx, o, seen, steps, events)
	end()
	if reports && ctx.Err() == nil {
		l.compare(ctx, o, seen, before, &out.Upgrade, a)
	}
	if err != nil {
		return out, err
	}
	return out, l.recordEngine()
}

// compare reports what an upgrade of the engine changed, whether or not the applications converged.
func (l *Lab) compare(ctx context.Context, o Options, seen *Seen, before survey.Survey, u *Upgrade, a Audience) {
	after, err := l.survey(ctx, l.clusters(o), seen)
	if err != nil {
		u.Unknown = []string{l.Estate.Hub().Name + ": " + err.Error()}
		a.Println("upgrade: what it changed is unknown: " + err.Error())
		return
	}
	u.Report = survey.Compare(before, after)
	for _, line := range u.Lines() {
		a.Println("upgrade: " + line)
	}
}

// confirm returns the plan after its destructive steps were confirmed by a flag or an answer. Unconfirmed removals are dropped from it.
func (l *Lab) confirm(ctx context.Context, o *Options, seen *Seen, a Audience) ([]lab.Step, error) {
	steps := l.Plan(ctx, *o, seen)
	if Allowed(*o, steps) != nil {
		remade := plan.Remade(steps)
		yes, err := a.Ask(ctx, plan.Changed(steps, remade)+": recreate it, and lose its contents?", losses(steps))
		if err != nil {
			return nil, err
		}
		if yes {
			o.Recreate = append(slices.Clone(o.Recreate), remade...)
		}
	}
	if err := Allowed(*o, steps); err != nil {
		return nil, err
	}
	if left := l.Left(ctx, *o, seen); len(left) > 0 {
		pruned := *o
		pruned.Prune = true
		doomed := l.Plan(ctx, pruned, seen)
		yes, err := a.Ask(ctx, "no longer in the estate: "+strings.Join(left, ", ")+": delete it, and lose its contents?", losses(doomed))
		if err != nil {
			return nil, err
		}
		if yes {
			*o, steps = pruned, doomed
		} else {
			a.Println("kept, though no longer in the estate: " + strings.Join(left, ", ") + "; " + o.PruneBy + " removes")
		}
	}
	if seen.Forge.Answers && len(seen.Estate) > 0 {
		if err := l.mayDelete(ctx, &o.Deleting, a.Println, a.Ask); err != nil {
			return nil, err
		}
	}
	for _, what := range losses(steps) {
		a.Println("losing " + what)
	}
	return steps, nil
}

// losses returns what the steps destroy.
func losses(steps []lab.Step) []string {
	var list []string
	for _, s := range steps {
		if s.Loses != "" {
			list = append(list, s.Loses)
		}
	}
	return list
}

// Losses returns one line for each item lost with the forge's volume, or nil if the volume is intact.
func (s *Seen) Losses() []string {
	if !s.Forge.Lost {
		return nil
	}
	what := "the forge's volume"
	if s.forge.Volume {
		what = "the forge's repository"
	}
	if len(s.Lost) == 0 {
		return []string{what + " is gone; the working tree has every commit that lab knew of"}
	}
	lines := []string{fmt.Sprintf("%s is gone, and commits that only it had are lost: %d", what, len(s.Lost))}
	for _, c := range s.Lost {
		lines = append(lines, fmt.Sprintf("  %s %s %s (%s)", lab.Abbreviate(c.Hash), c.When.Local().Format("2006-01-02 15:04"), c.Subject, c.Author))
	}
	return lines
}

// Ending returns a line for each cluster whose certificates have expired or soon will, and which no step renews.
func (s *Seen) Ending(now time.Time) []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(s.Clusters)) {
		if c := s.Clusters[name]; c.Renew == "" && c.Ended(now) {
			lines = append(lines, "cluster "+name+": "+c.Ending(now)+"; "+c.EndingCure())
		}
	}
	return lines
}

// recordEngine records the type and the shape of the installed engine.
func (l *Lab) recordEngine() error {
	r, err := l.Dir.Load()
	if err != nil || r.Type != "" {
		return err
	}
	own := recorded(l.Definition)
	r.Type, r.Shape = own.Type, own.Shape
	return l.Dir.Save(r)
}
