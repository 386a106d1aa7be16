// Package series plays scenarios one after another, and writes what came of each: a page with its timeline, and JUnit for all.
package series

import (
	"context"
	"errors"
	"time"

	"homelab/lab/scenario"
	"homelab/lab/scenario/report"
)

// Audience follows a series.
type Audience interface {
	// Begin is told of a story that starts, and returns who hears of its steps.
	Begin(ctx context.Context, s *scenario.Scenario) func(scenario.StepResult)
	// End is told what came of it, and where its page is; empty where it has none.
	End(r *scenario.Result, page string)
}

// Options say how scenarios are played, and where their results go.
type Options struct {
	Player   scenario.Player // its Tell is the audience's
	Pages    string          // folder
	JUnit    string          // file; empty for none
	Audience Audience
}

// Outcome is what came of a series.
type Outcome struct {
	Results []*scenario.Result
	Pages   []string // of each result; empty where it has none
	Took    time.Duration
	// Unwritten is why pages or JUnit could not be written. The results are the answer all the same.
	Unwritten error
}

// Play plays scenarios, until one is interrupted. Whatever comes of them is told and written.
func Play(ctx context.Context, list []*scenario.Scenario, o Options) Outcome {
	began := time.Now()
	var out Outcome
	for _, one := range list {
		o.Player.Tell = o.Audience.Begin(ctx, one)
		r := o.Player.Play(ctx, one)
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
