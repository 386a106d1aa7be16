// Package series plays scenarios in sequence, or side by side, and writes a timeline page for each and JUnit XML for all.
package series

import (
	"context"
	"errors"
	"slices"
	"time"

	"homelab/lab/scenario"
	"homelab/lab/scenario/report"
)

// Audience follows the progress of a series.
type Audience interface {
	// Begin is called when a story starts. The returned function receives its steps.
	Begin(ctx context.Context, s *scenario.Scenario) func(scenario.StepResult)
	// Together is called when several stories start side by side. Begin is called for each when it has ended.
	Together(list []*scenario.Scenario)
	// End is called with the result and the path of its page, which may be empty.
	End(r *scenario.Result, page string)
}

// Options configure a series.
type Options struct {
	Player   scenario.Player // OnStep is set by Play
	Jobs     int             // maximum number of stories side by side, of those without common subjects; 0 is 1
	Pages    string          // folder of the pages
	JUnit    string          // file; empty for none
	Audience Audience
}

// Outcome is the result of a series.
type Outcome struct {
	Results []*scenario.Result
	Pages   []string // of each result; empty if it has none
	Took    time.Duration
	// Unwritten is the error of writing pages or JUnit. The results are valid regardless.
	Unwritten error
}

// Play plays scenarios until one is interrupted. If one does not restore the lab, the others are not played.
func Play(ctx context.Context, list []*scenario.Scenario, o Options) Outcome {
	began := time.Now()
	var out Outcome
	spoilt := "" // by this scenario
	for len(list) > 0 && !slices.ContainsFunc(out.Results, func(r *scenario.Result) bool { return r.Verdict == scenario.Interrupted }) {
		var batch []*scenario.Scenario
		batch, list = next(list, o)
		var results []*scenario.Result
		switch {
		case spoilt != "":
			for _, one := range batch {
				o.Audience.Begin(ctx, one)
				results = append(results, o.end(o.Player.Unplayed(one, spoilt+" did not restore the lab: lab up restores it"), &out))
			}
		case len(batch) == 1:
			o.Player.OnStep = o.Audience.Begin(ctx, batch[0])
			results = append(results, o.end(o.Player.Play(ctx, batch[0]), &out))
		default:
			results = o.together(ctx, batch, &out)
		}
		for _, r := range results {
			if len(r.Left) > 0 {
				spoilt = r.Scenario
			}
			if r.Moved != nil {
				o.Player.World = *r.Moved
			}
		}
	}
	out.Unwritten = errors.Join(out.Unwritten, report.WriteJUnit(o.JUnit, out.Results))
	out.Took = time.Since(began)
	return out
}

// next returns the stories to play side by side, and those that are left.
func next(list []*scenario.Scenario, o Options) (batch, left []*scenario.Scenario) {
	for _, one := range list {
		apart := func(other *scenario.Scenario) bool { return scenario.Apart(one, other, o.Player.World) }
		if len(batch) == 0 || len(batch) < o.Jobs && !slices.ContainsFunc(batch, func(s *scenario.Scenario) bool { return !apart(s) }) {
			batch = append(batch, one)
		} else {
			left = append(left, one)
		}
	}
	return batch, left
}

// end writes and shows a result.
func (o Options) end(r *scenario.Result, out *Outcome) *scenario.Result {
	page, err := report.WritePage(o.Pages, r)
	o.Audience.End(r, page)
	out.Results, out.Pages, out.Unwritten = append(out.Results, r), append(out.Pages, page), errors.Join(out.Unwritten, err)
	return r
}

// together plays stories side by side. Each is shown as a whole when it has ended.
func (o Options) together(ctx context.Context, batch []*scenario.Scenario, out *Outcome) []*scenario.Result {
	o.Audience.Together(batch)
	company := scenario.NewCompany(len(batch))
	type ended struct {
		story  *scenario.Scenario
		result *scenario.Result
		steps  []scenario.StepResult
	}
	all := make(chan ended)
	for _, one := range batch {
		go func() {
			e := ended{story: one}
			player := o.Player
			player.Company, player.OnStep = company, func(r scenario.StepResult) { e.steps = append(e.steps, r) }
			e.result = player.Play(ctx, one)
			all <- e
		}()
	}
	var results []*scenario.Result
	for range batch {
		e := <-all
		show := o.Audience.Begin(ctx, e.story)
		for _, step := range e.steps {
			if step.Verdict != "" {
				show(step)
			}
		}
		results = append(results, o.end(e.result, out))
	}
	return results
}
