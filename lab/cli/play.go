package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"homelab/lab"
	"homelab/lab/cli/audience"
	"homelab/lab/docker"
	"homelab/lab/scenario"
	"homelab/lab/scenario/series"
	"homelab/lab/snapshot"
	"homelab/lab/state"
	"homelab/lab/ui"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

// playHere plays scenarios on an existing lab.
func (p *program) playHere(ctx context.Context, ws *workspace.Workspace, o playOptions, list []*scenario.Scenario) error {
	if err := ws.Ours(); err != nil {
		return err
	}
	est, err := ws.Load()
	if err != nil {
		return err
	}
	o.pages = cmp.Or(o.pages, filepath.Join(ws.Dir.Path, lab.ScenariosDir))
	return ws.Locked(ctx, func(ctx context.Context) error { return p.play(ctx, ws, est, o, list) })
}

func (p *program) play(ctx context.Context, ws *workspace.Workspace, est *lab.Estate, o playOptions, list []*scenario.Scenario) error {
	l, err := assemble(ws, parts{estate: est})
	if err != nil {
		return err
	}
	if o.player.World, err = p.world(ctx, ws, o, l); err != nil {
		return err
	}
	if o.jobs > 1 {
		for _, line := range scenario.Alone(list, o.player.World) {
			p.ui.Println("played alone, " + line)
		}
	}
	var one sync.Mutex // brings images
	o.player.Images = func(ctx context.Context, cluster string, images []string) error {
		one.Lock()
		defer one.Unlock()
		s, err := openSupply(ctx, o.origin)
		if err != nil {
			return err
		}
		l.core.Supply = s
		return p.ui.Narrate(func(progress lab.Progress) error { return l.core.LoadImages(ctx, cluster, images, progress) })
	}
	again, done := secondInterrupt(ctx)
	defer done()
	o.player.GiveUp = again
	if o.pause {
		enter := p.ui.Enter()
		o.player.Pause = func(ctx context.Context, s scenario.Step) error {
			return enter(ctx, fmt.Sprintf("enter: %d %s", s.Number, s.Title))
		}
	}
	return p.playAll(ctx, ws.Name, list, series.Options{Player: o.player, Jobs: o.jobs, Pages: o.pages, JUnit: o.junit})
}

// playAll plays scenarios. The result is shown even if its files cannot be written.
func (p *program) playAll(ctx context.Context, labName string, list []*scenario.Scenario, o series.Options) error {
	o.Audience = audience.Stories{UI: p.ui, Lab: labName}
	out := series.Play(ctx, list, o)
	exit := scenario.Worst(out.Results)
	if out.Unwritten != nil {
		p.ui.Println("error: " + strings.ReplaceAll(out.Unwritten.Error(), "\n", "; "))
		exit = cmp.Or(exit, lab.ExitFailed)
	}
	if p.ui.WantsJSON() {
		if err := p.ui.JSON(scenarioRun(labName, out)); err != nil {
			return err
		}
	}
	if exit != lab.ExitDone {
		return exitError{exit}
	}
	return nil
}

// playFresh creates a lab, plays on it, and always removes it.
func (p *program) playFresh(ctx context.Context, around *workspace.Workspace, o playOptions, list []*scenario.Scenario) error {
	if err := around.HasEstate(); err != nil {
		return err
	}
	ws, err := around.Sibling("-fresh")
	if err != nil {
		return err
	}
	if ws.Dir.Exists() {
		return &lab.Error{Exit: lab.ExitFailed, Code: "exists", Message: "there is a lab " + ws.Name + " already", Cure: "lab down --name " + lab.Quote(ws.Name)}
	}
	s, err := openSupply(ctx, o.origin)
	if err == nil {
		err = p.acceptBundle(ctx, o.origin)
	}
	if err != nil {
		return err
	}
	est, err := ws.Load(supplied(ctx, s)...)
	if err != nil {
		return err
	}
	with := parts{estate: est, supply: s}
	if err := with.choose(ctx); err != nil {
		return err
	}
	clusters := scenario.RequiredClusters(list, est)
	from, err := snapshot.New(ws.Name, docker.New()).Suited(ctx, clusters)
	if err != nil {
		return err
	}
	if err := p.agree(ctx, around, est, false); err != nil {
		return err
	}
	cache, _ := state.CacheRoot()
	o.pages = cmp.Or(o.pages, filepath.Join(cache, lab.ScenariosDir)) // the lab's folder is removed with the lab
	quiet := &program{env: p.env, ui: p.ui.Aside()}                   // only the scenario's result is shown
	return ws.Locked(ctx, func(ctx context.Context) (err error) {
		defer func() { err = p.discard(ctx, ws, quiet, err) }()
		run := upOptions{origin: o.origin, run: up.Options{From: from, Clusters: clusters, Others: true, Timeout: o.timeout}}
		if _, _, err := quiet.bringUp(ctx, ws, with, run); err != nil {
			return err
		}
		return p.play(ctx, ws, est, o, list)
	})
}

// downWithin bounds the removal of a lab.
const downWithin = 10 * time.Minute

// discard removes the lab of a scenario that ended with err, which stays the result.
func (p *program) discard(ctx context.Context, ws *workspace.Workspace, quiet *program, err error) error {
	if ctx.Err() != nil {
		p.ui.Println("the lab " + ws.Name + " is removed; ctrl-c again leaves it: lab down --name " + lab.Quote(ws.Name))
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), downWithin)
	defer cancel()
	down := quiet.down(limited, ws, up.DownOptions{Lose: up.Consent{By: "lab down --name " + lab.Quote(ws.Name) + " --lose-commits"}})
	var shown exitError
	if down != nil && errors.As(err, &shown) {
		p.ui.Println("error: the lab " + ws.Name + " is not removed: " + down.Error() + ": lab down --name " + lab.Quote(ws.Name))
		return err
	}
	return errors.Join(err, down)
}

// scenarioRun converts a series.
func scenarioRun(labName string, played series.Outcome) ui.ScenarioRun {
	out := ui.ScenarioRun{Lab: labName, Seconds: ui.Seconds(played.Took), Verdict: string(scenario.WorstVerdict(played.Results))}
	for i, r := range played.Results {
		one := ui.ScenarioResult{
			Name: r.Scenario, Title: r.Title, Verdict: string(r.Verdict), Reason: r.Reason, Began: r.Began.UTC(), Seconds: ui.Seconds(r.Took), Left: r.Left, Timeline: played.Pages[i],
		}
		for _, m := range r.Measures {
			one.Measures = append(one.Measures, ui.ScenarioMeasure{Name: m.Name, From: m.From, Seconds: ui.Seconds(m.Took)})
		}
		for _, step := range r.Steps {
			line := ui.ScenarioStepResult{
				Number: step.Number, ID: step.ID, Title: step.Title, Verb: step.Verb, Always: step.Always, Verdict: string(step.Verdict),
				Since: ui.Seconds(step.Began), Seconds: ui.Seconds(step.Took), Did: step.Did, Error: step.Error,
			}
			if u := step.Unmet; u != nil {
				line.Expected, line.LastSeen, line.Unchanged, line.Notes = u.Expected, u.LastSeen, ui.Seconds(u.Unchanged), u.Notes
			}
			for _, e := range step.Evidence {
				line.Evidence = append(line.Evidence, ui.ScenarioEvidence{Cluster: e.Cluster, Namespace: e.Namespace, Source: e.Source, Lines: e.Lines})
			}
			one.Steps = append(one.Steps, line)
		}
		out.Scenarios = append(out.Scenarios, one)
	}
	return out
}
