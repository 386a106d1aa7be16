package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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
	"homelab/lab/snapshot"
	"homelab/lab/state"
	"homelab/lab/ui"
	"homelab/lab/up"
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
	for _, one := range list {
		if err := (scenario.Player{Only: c.Int("step"), From: c.Int("from")}).Has(one); err != nil {
			return err
		}
	}
	if c.Bool("fresh") {
		if err := s.hasEstate(); err != nil {
			return err
		}
		return s.fresh(c, list)
	}
	if s, err = p.existing(c); err != nil {
		return err
	}
	if err := s.ours(); err != nil {
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
	case c.IsSet("step") && c.IsSet("from"):
		return usage("both --step and --from", "one of them")
	case c.IsSet("step") && c.Int("step") < 1 || c.IsSet("from") && c.Int("from") < 1:
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
	home := s.dir.Path
	if c.Bool("fresh") { // the lab's folder goes with the lab
		home = s.cacheDir()
	}
	again, done := secondSignal(ctx)
	defer done()
	return s.playOn(ctx, list, playing{
		player: scenario.Player{World: stage, GiveUp: again, Pause: s.pause(c), Only: c.Int("step"), From: c.Int("from")},
		pages:  cmp.Or(c.String("report"), filepath.Join(home, lab.ScenariosDir)), junit: c.String("junit"),
	})
}

// playing is how scenarios are played, and where their results go.
type playing struct {
	player       scenario.Player
	pages, junit string // folder and file
}

// playOn plays scenarios. Whatever comes of them is shown and written; what cannot be written is said beside it.
func (s *session) playOn(ctx context.Context, list []*scenario.Scenario, how playing) error {
	began := time.Now()
	var results []*scenario.Result
	var pages []string
	var unwritten error
	for _, one := range list {
		s.ui.StoryBegin(one.Name+": "+one.Title, "lab "+s.name)
		how.player.Tell = s.tell(ctx, time.Now())
		r := how.player.Play(ctx, one)
		page, err := writePage(how.pages, r)
		s.ui.StoryEnd(verdictLine(r, page))
		results, pages, unwritten = append(results, r), append(pages, page), errors.Join(unwritten, err)
		if r.Verdict == scenario.Interrupted {
			break
		}
	}
	unwritten = errors.Join(unwritten, writeJUnit(how.junit, results))
	exit := scenario.Worst(results)
	if unwritten != nil {
		s.ui.Say("error: " + strings.ReplaceAll(unwritten.Error(), "\n", "; "))
		exit = cmp.Or(exit, lab.ExitFailed)
	}
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

// secondSignal is closed by the interrupt that comes after the one that ended ctx: what puts the lab back is given up then, and says what is left.
func secondSignal(ctx context.Context) (again <-chan struct{}, done func()) {
	second, over := make(chan struct{}), make(chan struct{})
	detach := context.AfterFunc(ctx, func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(signals)
		select {
		case <-signals:
			close(second)
		case <-over:
		}
	})
	return second, func() {
		detach()
		close(over)
	}
}

// hubWithin is how long the hub may take to say what it knows.
const hubWithin = 30 * time.Second

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
	look, cancel := context.WithTimeout(ctx, hubWithin)
	defer cancel()
	seen, err := e.Observe(look)
	if ctx.Err() != nil {
		return scenario.World{}, ctx.Err()
	}
	if err != nil {
		return scenario.World{}, &lab.Error{Exit: lab.ExitFailed, Code: "no_engine", Message: "the lab's hub does not answer", Cure: "lab up", Err: err}
	}
	there := *est
	there.Clusters = up.Registered(est, seen.Registrations)
	git := live.NewGit(w.forgeURL()+"/"+w.Creds.ForgeUser+"/"+forge.Repository+".git", &githttp.BasicAuth{Username: w.Creds.ForgeUser, Password: w.Creds.ForgePassword})
	return scenario.World{
		Lab: s.name, Estate: &there, Engines: cmp.Or(s.record.Engine, w.Definition.Type), Forge: git, Branches: git,
		Clusters: live.NewClusters(s.name, w.docker, w.kind.RESTConfig), Engine: live.Engine{Hub: e},
	}, nil
}

// tell passes steps on to the screen.
func (s *session) tell(ctx context.Context, began time.Time) func(scenario.StepResult) {
	return func(r scenario.StepResult) {
		l := ui.StoryLine{Number: r.Number, Title: r.Title, Took: r.Took, Since: time.Since(began)}
		switch {
		case r.Verdict == "" && len(r.Back) > 0 && ctx.Err() != nil:
			s.ui.StoryStep(toPutBack(l, r))
		case r.Verdict == "":
		case r.Verdict == scenario.Passed:
			l.Symbol = ui.SymbolOK
		case r.Verdict == scenario.Interrupted:
			l.Symbol = ui.SymbolWarning
			if r.Verb != leave {
				l.Detail = []ui.Entry{{Name: "", Text: "interrupted; the lab is put back"}}
			} else if r.Unmet != nil {
				l.Detail = details(r)
			}
		default:
			l.Symbol = ui.SymbolFailed
			l.Detail = details(r)
		}
		s.ui.StoryStep(l)
	}
}

// leave is the verb of the last step of every story.
const leave = "leave"

// toPutBack says after an interrupt what the next one would leave.
func toPutBack(l ui.StoryLine, r scenario.StepResult) ui.StoryLine {
	l.Title, l.Symbol = "ctrl-c again leaves what is not put back yet", ui.SymbolWaiting
	for _, what := range r.Back {
		l.Detail = append(l.Detail, ui.Entry{Name: "to do", Text: what})
	}
	return l
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

// freshSuffix is added to the name of the lab that is made for a story.
const freshSuffix = "-fresh"

// freshLimit is how long the applications of such a lab may take to converge.
const freshLimit = 5 * time.Minute

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
	from, err := f.suited(c.Context, clusters)
	if err != nil {
		return err
	}
	return f.locked(c.Context, func(ctx context.Context) (err error) {
		quiet := *f
		defer func() { err = f.remove(ctx, &quiet, err) }()
		quiet.program = &program{Env: f.Env, ui: f.ui.Aside()} // the result is the story's
		if err := quiet.up(ctx, c, est, up.Options{From: from, Clusters: clusters, Others: true, Timeout: freshLimit}); err != nil {
			return err
		}
		f.record = quiet.record
		return f.play(ctx, c, est, list)
	})
}

// suited names the newest snapshot of the lab that has all of these clusters; empty where there is none.
func (s *session) suited(ctx context.Context, clusters []lab.Cluster) (string, error) {
	d := docker.New()
	if _, err := d.Info(ctx); err != nil { // the checks of the machine come later, and cure this
		return "", nil
	}
	list, err := snapshot.New(s.name, d).List(ctx)
	if err != nil {
		return "", err
	}
	for _, o := range list {
		if !slices.ContainsFunc(clusters, func(c lab.Cluster) bool { _, ok := o.Clusters[c.Name]; return !ok }) {
			return o.Name, nil
		}
	}
	return "", nil
}

// downWithin is how long a lab may take to be removed.
const downWithin = 10 * time.Minute

// remove removes the lab of a story that ended with err. What came of the story was shown and stays the answer.
func (s *session) remove(ctx context.Context, quiet *session, err error) error {
	if ctx.Err() != nil {
		s.ui.Say("the lab " + s.name + " is removed; ctrl-c again leaves it: lab down --name " + s.name)
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), downWithin)
	defer cancel()
	down := quiet.down(limited, false)
	var shown exitError
	if down != nil && errors.As(err, &shown) {
		s.ui.Say("error: the lab " + s.name + " is not removed: " + down.Error() + ": lab down --name " + s.name)
		return err
	}
	return errors.Join(err, down)
}
