package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/doctor"
	"homelab/lab/forge"
	"homelab/lab/scenario"
	"homelab/lab/scenario/live"
	"homelab/lab/scenario/report"
	"homelab/lab/state"
	"homelab/lab/ui"
)

func (p *program) scenarioRun(c *cli.Context) error {
	s, err := p.open(c)
	if err != nil {
		return err
	}
	names := c.Args().Slice()
	if c.Bool("all") {
		if names, err = scenario.List(s.estate.fsys); err != nil {
			return err
		}
	}
	if err := playable(c, names); err != nil {
		return err
	}
	list, err := s.stories(names)
	if err != nil {
		return err
	}
	if c.Bool("fresh") {
		return s.fresh(c, list)
	}
	if s, err = p.existing(c); err != nil {
		return err
	}
	est, err := s.load()
	if err != nil {
		return err
	}
	return s.locked(c.Context, func(ctx context.Context) error { return s.play(ctx, c, est, list) })
}

func playable(c *cli.Context, names []string) error {
	usage := func(message, cure string) error {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: message, Cure: cure}
	}
	switch {
	case len(names) == 0:
		return usage("lab scenario run takes the names of scenarios, or --all", "lab scenario ls")
	case c.Bool("all") && c.NArg() > 0:
		return usage("both --all and names", "one of them")
	case (c.IsSet("step") || c.IsSet("from")) && len(names) > 1:
		return usage("--step and --from are for one scenario", "name one")
	case c.Int("step") < 0 || c.Int("from") < 0:
		return usage("steps count from 1", "lab scenario show "+names[0])
	case c.Bool("pause") && !term.IsTerminal(int(os.Stdin.Fd())):
		return usage("--pause waits for enter, and there is no terminal to press it on", "leave it out")
	}
	return nil
}

// play plays scenarios on a lab that is up.
func (s *session) play(ctx context.Context, c *cli.Context, est *lab.Estate, list []*scenario.Scenario) error {
	stage, err := s.stage(ctx, est)
	if err != nil {
		return err
	}
	began := time.Now()
	var results []*scenario.Result
	var pages []string
	pause := s.pause(c)
	for _, one := range list {
		s.ui.StoryBegin(one.Name+": "+one.Title, "lab "+s.name)
		r := scenario.Player{World: stage, Tell: s.tell(time.Now()), Pause: pause, Only: c.Int("step"), From: c.Int("from")}.Play(ctx, one)
		page, err := s.page(c, r)
		s.ui.StoryEnd(verdictLine(r, page))
		results, pages = append(results, r), append(pages, page)
		if err != nil {
			return err
		}
		if r.Verdict == scenario.Interrupted {
			break
		}
	}
	if err := writeJUnit(c.String("junit"), results); err != nil {
		return err
	}
	exit := scenario.Worst(results)
	if s.ui.WantsJSON() {
		if err := s.ui.JSON(runResult(s.name, results, pages, time.Since(began))); err != nil {
			return err
		}
	}
	if exit != lab.ExitDone {
		return exitError{exit}
	}
	return nil
}

// stage is the lab as scenarios see it, with the clusters that it has: it may have been brought up with some of the estate's alone.
func (s *session) stage(ctx context.Context, est *lab.Estate) (scenario.World, error) {
	w, err := s.openWorld(est, doctor.Traits{})
	if err != nil {
		return scenario.World{}, err
	}
	e, err := w.engine()
	if err != nil {
		return scenario.World{}, err
	}
	seen, err := e.Observe(ctx)
	if err != nil {
		return scenario.World{}, &lab.Error{Exit: lab.ExitFailed, Code: "no_engine", Message: "the lab's hub does not answer", Cure: "lab up", Err: err}
	}
	there := *est
	there.Clusters = registered(est, seen.Registrations)
	git := live.NewGit(w.forgeURL()+"/"+w.creds.ForgeUser+"/"+forge.Repository+".git", &githttp.BasicAuth{Username: w.creds.ForgeUser, Password: w.creds.ForgePassword})
	return scenario.World{
		Lab: s.name, Estate: &there, Engines: cmp.Or(s.record.Engine, lab.EngineArgoCD), Forge: git, Branches: git,
		Clusters: live.NewClusters(s.name, w.docker, w.kind.RESTConfig), Engine: live.Engine{ArgoCD: e},
	}, nil
}

// tell passes steps on to the screen.
func (s *session) tell(began time.Time) func(scenario.StepResult) {
	return func(r scenario.StepResult) {
		l := ui.StoryLine{Number: r.Number, Title: r.Title, Took: r.Took, Since: time.Since(began)}
		switch r.Verdict {
		case "":
		case scenario.Passed:
			l.Symbol = ui.SymbolOK
		case scenario.Interrupted:
			l.Symbol = ui.SymbolWarning
			l.Detail = []ui.Entry{{Name: "", Text: "interrupted; the lab is put back"}}
		default:
			l.Symbol = ui.SymbolFailed
			l.Detail = details(r)
		}
		s.ui.StoryStep(l)
	}
}

func details(r scenario.StepResult) []ui.Entry {
	if r.Unmet == nil {
		return []ui.Entry{{Name: "error", Text: r.Error}}
	}
	seen := r.Unmet.LastSeen
	if r.Unmet.Unchanged >= time.Second {
		seen += ", unchanged for " + ui.Duration(r.Unmet.Unchanged)
	}
	list := []ui.Entry{{Name: "expected", Text: r.Unmet.Expected}, {Name: "last seen", Text: seen}}
	for _, n := range r.Unmet.Notes {
		list = append(list, ui.Entry{Name: "note", Text: n})
	}
	return list
}

func verdictLine(r *scenario.Result, page string) string {
	line := fmt.Sprintf("%s in %s", r.Verdict, ui.Duration(r.Took))
	switch {
	case r.Verdict == scenario.Skipped:
		line = "skipped: " + r.Reason
	case r.Reason != "":
		line += ": " + r.Reason
	}
	if page != "" {
		line += "   timeline: " + page
	}
	return line
}

// pause waits for enter before a step; nil where nobody asked for it.
func (s *session) pause(c *cli.Context) func(context.Context, scenario.Step) error {
	if !c.Bool("pause") {
		return nil
	}
	// One reader for all pauses: a read cannot be cancelled, and must not swallow what the next one waits for.
	lines := make(chan error)
	go func() {
		in := bufio.NewReader(os.Stdin)
		for {
			_, err := in.ReadString('\n')
			lines <- err
			if err != nil {
				return
			}
		}
	}()
	return func(ctx context.Context, step scenario.Step) error {
		s.ui.StoryPrompt(fmt.Sprintf("enter: %d %s", step.Number, step.Title))
		select {
		case err := <-lines:
			if errors.Is(err, io.EOF) {
				return context.Canceled
			}
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// page writes a story's timeline. A story that was not played has none.
func (s *session) page(c *cli.Context, r *scenario.Result) (string, error) {
	if len(r.Steps) == 0 {
		return "", nil
	}
	home := s.dir.Path
	if c.Bool("fresh") { // the lab's folder goes with the lab
		home = s.cacheDir()
	}
	dir := cmp.Or(c.String("report"), filepath.Join(home, lab.ScenariosDir))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("timeline: %w", err)
	}
	var b bytes.Buffer
	if err := report.HTML(&b, r); err != nil {
		return "", fmt.Errorf("timeline: %w", err)
	}
	file := filepath.Join(dir, r.Scenario+".html")
	return file, os.WriteFile(file, b.Bytes(), 0o600)
}

func writeJUnit(file string, results []*scenario.Result) error {
	if file == "" {
		return nil
	}
	var b bytes.Buffer
	if err := report.JUnit(&b, results); err != nil {
		return fmt.Errorf("junit: %w", err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("junit: %w", err)
	}
	return nil
}

// freshSuffix is added to the name of the lab that is made for a story.
const freshSuffix = "-fresh"

// fresh makes a lab, plays on it, and removes it however that ended.
func (s *session) fresh(c *cli.Context, list []*scenario.Scenario) (err error) {
	f := &session{program: s.program, name: strings.TrimSuffix(s.name[:min(len(s.name), maxName-len(freshSuffix))], "-") + freshSuffix, estate: s.estate}
	if f.dir, err = state.Open(f.name); err != nil {
		return err
	}
	if f.dir.Exists() {
		return &lab.Error{Exit: lab.ExitFailed, Code: "exists", Message: "there is a lab " + f.name + " already", Cure: "lab down --name " + f.name}
	}
	if f.supply, err = f.openSupply(c.Context, docker.New(), c); err != nil {
		return err
	}
	est, err := f.load(f.limits()...)
	if err != nil {
		return err
	}
	clusters := slices.DeleteFunc(slices.Clone(est.Clusters), func(cl lab.Cluster) bool {
		return cl.Role != lab.RoleHub && !slices.ContainsFunc(list, func(one *scenario.Scenario) bool { return slices.Contains(one.Requires.Clusters, cl.Name) })
	})
	return f.locked(c.Context, func(ctx context.Context) (err error) {
		quiet := *f
		defer func() { err = errors.Join(err, quiet.down(context.WithoutCancel(ctx))) }()
		quiet.program = &program{Env: f.Env, ui: f.ui.Aside()} // the result is the story's
		if err := quiet.up(ctx, c, est, clusters); err != nil {
			return err
		}
		f.record = quiet.record
		return f.play(ctx, c, est, list)
	})
}

func runResult(labName string, results []*scenario.Result, pages []string, took time.Duration) ui.ScenarioRun {
	out := ui.ScenarioRun{Lab: labName, Seconds: ui.Seconds(took), Verdict: string(scenario.WorstVerdict(results))}
	for i, r := range results {
		one := ui.ScenarioResult{
			Name: r.Scenario, Title: r.Title, Verdict: string(r.Verdict), Reason: r.Reason, Began: r.Began.UTC(), Seconds: ui.Seconds(r.Took), Left: r.Left, Timeline: pages[i],
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
			one.Steps = append(one.Steps, line)
		}
		out.Scenarios = append(out.Scenarios, one)
	}
	return out
}
