// Package series plays scenarios in sequence and writes a timeline page for each and JUnit XML for all.
package series

import (
	"context"
	"errors"
	"time"

	"homelab/lab/scenario"
	"homelab/lab/scenario/report"
)

// Audience follows the progress of a series.
type Audience interface {
	// Begin is called when a story starts. The returned function receives its steps.
	Begin(ctx context.Context, s *scenario.Scenario) func(scenario.StepResult)
	// End is called with the result and the path of its page, which may be empty.
	End(r *scenario.Result, page string)
}

// Options configure a series.
type Options struct {
	Player   scenario.Player // OnStep is set by Play
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
	for _, one := range list {
		o.Player.OnStep = o.Audience.Begin(ctx, one)
		var r *scenario.Result
		if spoilt == "" {
			r = o.Player.Play(ctx, one)
		} else {
			r = o.Player.Unplayed(one, spoilt+" did not restore the lab: lab up restores it")
		}
		if len(r.Left) > 0 {
			spoilt = r.Scenario
		}
		page, err := report.WritePage(o.Pages, r)
		o.Audience.End(r, page)
		out.Results, out.Pages, out.Unwritten = append(out.Results, r), append(out.Pages, page), errors.Join(out.Unwritten, err)
		if r.Verdict == scenario.Interrupted {
			break
		}
	}
	out.Unwritten = errors.Join(out.Unwritten, report.WriteJUnit(o.JUnit, out.Results))
	out.Took = time.Since(began)
	return out
}
