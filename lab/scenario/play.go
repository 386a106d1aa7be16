package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"homelab/lab"
)

// Timeouts of the player.
const (
	settleTimeout   = 90 * time.Second // before a story, while nothing moves: the lab may just have come up
	alwaysWithin    = 2 * time.Minute
	undoTimeout     = 3 * time.Minute  // all undos together, except that of an engine
	undoEachTimeout = 30 * time.Second // one undo
	switchTimeout   = 10 * time.Minute // undo of an engine
	queryTimeout    = 30 * time.Second // one query of state that is not watched
	restoreTimeout  = 2 * time.Minute  // the engine's convergence after the undos, while nothing moves
)

// restoredTitle is the title of every story's last step.
const restoredTitle = "the lab is as it was"

// Player plays scenarios on a lab.
type Player struct {
	World World
	// OnStep is called when a step starts (without a verdict) and when it ends. It may be nil.
	OnStep func(StepResult)
	// Pause is called before each step but the first. It may be nil.
	Pause func(context.Context, Step) error
	// Images brings images to a cluster before the first step. It may be nil.
	Images func(ctx context.Context, cluster string, images []string) error
	// Company has the stories that are played beside this one. It may be nil.
	Company *Company
	Only    int // play only this step; 0 for all
	From    int // play from this step on; 0 for all
	// GiveUp, when closed, also stops the restoring of the lab: the second Ctrl-C. It may be nil.
	GiveUp <-chan struct{}
}

// Has returns a usage error if the story lacks a selected step.
func (p Player) Has(s *Scenario) error {
	last := s.last()
	usage := func(message string) error {
		cure := fmt.Sprintf("its steps are 1 to %d: lab scenario show %s", last, lab.Quote(s.Name))
		return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: message, Cure: cure}
	}
	for _, n := range []int{p.Only, p.From} {
		if n < 0 || n > last {
			return usage(fmt.Sprintf("scenario %s has no step %d", s.Name, n))
		}
		if n > 0 && !slices.ContainsFunc(s.all(), func(step Step) bool { return step.Number == n }) {
			return usage(fmt.Sprintf("step %d of scenario %s is for another engine", n, s.Name))
		}
	}
	if p.Only > 0 && p.Only < p.From {
		return usage(fmt.Sprintf("step %d precedes step %d", p.Only, p.From))
	}
	return nil
}

// errTimeUp is the cause of a context when the story's timeout has passed.
var errTimeUp = errors.New("the story timed out")

// givenUp is the cause of a context when restoring is interrupted.
type givenUp struct{}

func (givenUp) Error() string        { return "interrupted again" }
func (givenUp) Is(target error) bool { return target == context.Canceled }

type undo struct {
	title  string
	within time.Duration
	do     func(context.Context) error
	branch bool // undoes all commits to a branch
	last   bool // once the engine has followed the restored branch
}

type started struct {
	time  time.Time
	title string
}

type playing struct {
	player   Player
	world    World
	member   member
	scenario *Scenario
	recorder *Recorder
	result   *Result
	vars     map[string]any
	memory   map[string]any
	undos    []undo
	touched  map[string]*touched // by branch
	started  map[string]started  // by step id
	cursor   Cursor
	before   *snapshot
	current  string    // title of the current step
	about    []Subject // of the current step
	last     int       // number of the story's last step
	first    bool      // no step was played yet
}

// Play plays a scenario and restores the lab in any case, even if ctx is cancelled.
func (p Player) Play(ctx context.Context, s *Scenario) *Result {
	last, r := s.last(), p.Unplayed(s, "")
	began := r.Began
	s = s.For(p.World.Engines)
	r.Verdict = Passed
	pl := &playing{
		player: p, world: p.World, member: member{company: p.Company}, scenario: s, recorder: newRecorder(ctx, p.World, began), result: r, vars: map[string]any{}, memory: map[string]any{}, touched: map[string]*touched{},
		started: map[string]started{}, before: newSnapshot(), first: true, last: last,
	}
	defer pl.recorder.Close()
	defer pl.member.leave()
	maps.Copy(pl.vars, s.Vars)
	pl.vars["lab"], pl.vars["scenario"], pl.vars["commit"] = p.World.Lab, s.Name, ""
	pl.locate()
	if err := p.Has(s); err != nil {
		r.Verdict, r.Reason = NotPlayed, err.Error()
	} else if pl.ready(ctx) {
		pl.play(ctx)
	}
	r.Marks = pl.recorder.timeline()
	r.Took = time.Since(began)
	return r
}

// ready checks the requirements and takes the snapshot. Nothing is changed if it returns false.
func (p *playing) ready(ctx context.Context) bool {
	if ctx.Err() != nil {
		p.result.Verdict, p.result.Reason = Interrupted, "interrupted"
		return false
	}
	if why := p.missing(); why != "" {
		p.result.Verdict, p.result.Reason = Skipped, why
		return false
	}
	err := p.answer(ctx)
	if err == nil {
		err = p.images(ctx)
	}
	if err == nil {
		err = p.open(ctx)
	}
	if err == nil {
		err = p.member.open(ctx)
	}
	if err != nil {
		err = because(ctx, err)
		p.result.Verdict, p.result.Reason = p.verdict(err), err.Error()
	}
	return err == nil
}

// open starts the watches, waits until the lab has settled, and takes the snapshot.
func (p *playing) open(ctx context.Context) error {
	var subjects []Subject
	for _, s := range p.scenario.all() {
		action, err := s.filled(p.vars, true)
		if err != nil {
			return err
		}
		if w, ok := action.(Watcher); ok {
			for _, subject := range w.Subjects() {
				p.facets(subject, action)
				subjects = append(subjects, subject)
			}
		}
	}
	subjects = sortedSubjects(setOf(subjects))
	if err := p.watch(ctx, subjects); err != nil {
		return err
	}
	if err := p.settled(ctx, subjects); err != nil {
		return err
	}
	p.cursor = p.recorder.now()
	view := p.recorder.view(p.cursor)
	p.before = newSnapshot()
	p.before.keep(view, subjects)
	p.before.keepApplications(view)
	if failed := p.before.ask(ctx, p.world); len(failed) > 0 {
		return failed[0]
	}
	return nil
}

func setOf(subjects []Subject) map[Subject]bool {
	set := map[Subject]bool{}
	for _, s := range subjects {
		set[s] = true
	}
	return set
}

// facets sets the fields of an object that the timeline shows.
func (p *playing) facets(s Subject, a Action) {
	f, ok := a.(interface{ Facets(Subject) []string })
	if !ok {
		return
	}
	p.recorder.mu.Lock()
	defer p.recorder.mu.Unlock()
	for _, path := range f.Facets(s) {
		if have := p.recorder.facets[s]; !slices.Contains(have, path) && len(have) < 3 {
			p.recorder.facets[s] = append(have, path)
		}
	}
}

// locate sets the variables of places.
func (p *playing) locate() {
	maps.Copy(p.vars, p.world.places())
}

// watch watches subjects and all applications.
func (p *playing) watch(ctx context.Context, subjects []Subject) error {
	known := []Subject{Applications()}
	for _, s := range subjects {
		if !unnamed(s) {
			known = append(known, s)
		}
	}
	if err := p.recorder.watch(ctx, known); err != nil {
		return err
	}
	p.before.keep(p.recorder.view(p.recorder.now()), known)
	return nil
}

// unnamed reports whether a subject contains a variable, which is expanded when its step is played.
func unnamed(s Subject) bool {
	return strings.Contains(s.Cluster+s.Addon+s.APIVersion+s.Kind+s.Namespace+s.Name, "${")
}

func (s *Scenario) all() []Step { return slices.Concat(s.Steps, s.Always) }

// last returns the number of the last step.
func (s *Scenario) last() int {
	if all := s.all(); len(all) > 0 {
		return all[len(all)-1].Number
	}
	return 0
}

func (p *playing) chosen(s Step) bool {
	return (p.player.Only == 0 || p.player.Only == s.Number) && s.Number >= p.player.From
}

// play plays the steps and the always steps, then restores the lab.
func (p *playing) play(ctx context.Context) {
	limited, cancel := context.WithTimeoutCause(ctx, p.scenario.Timeout, errTimeUp)
	defer cancel()
	var failure error
	for _, s := range p.scenario.Steps {
		if failure != nil || !p.chosen(s) {
			p.result.Steps = append(p.result.Steps, StepResult{Number: s.Number, ID: s.ID, Title: s.Title, Verb: s.Verb, Verdict: NotPlayed})
			continue
		}
		failure = p.step(limited, s, false)
	}
	back, done := p.back(ctx)
	defer done()
	after, cancel := context.WithTimeoutCause(back, alwaysWithin, errTimeUp)
	defer cancel()
	for _, s := range p.scenario.Always {
		if err := p.step(after, s, true); err != nil {
			failure = errors.Join(failure, err)
		}
	}
	if failure != nil {
		p.result.Verdict = p.verdict(firstOf(failure))
	}
	p.leave(back, func() bool { return ctx.Err() != nil })
}

// back returns a context for restoring: it survives the first interrupt and ends with GiveUp.
func (p *playing) back(ctx context.Context) (context.Context, func()) {
	back, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-p.player.GiveUp:
			cancel(givenUp{})
		case <-back.Done():
		}
	}()
	return back, func() { cancel(nil) }
}

func (p *playing) step(ctx context.Context, s Step, always bool) error {
	r := StepResult{Number: s.Number, ID: s.ID, Title: s.Title, Verb: s.Verb, Always: always}
	if p.player.Pause != nil && !p.first && !always {
		if err := p.player.Pause(ctx, s); err != nil {
			p.ended(r, time.Now(), because(ctx, err))
			return err
		}
	}
	p.first, p.current = false, s.Title
	now := time.Now()
	r.Began = now.Sub(p.result.Began)
	p.onStep(r)
	p.about = nil
	err := because(ctx, p.act(ctx, s, &r))
	if err != nil && p.verdict(err) != Interrupted {
		r.Evidence = p.evidence(ctx)
	}
	p.ended(r, now, err)
	return err
}

// ended records the result of a step.
func (p *playing) ended(r StepResult, began time.Time, err error) {
	r.Began, r.Took = began.Sub(p.result.Began), time.Since(began)
	r.Verdict = Passed
	if err != nil {
		r.Verdict = p.verdict(err)
		if !errors.As(err, &r.Unmet) {
			r.Error = err.Error()
			if e := new(lab.Error); errors.As(err, &e) && len(e.Problems) > 0 {
				r.Error += ": " + strings.ReplaceAll(e.Problems.Error(), "\n", "; ")
			}
		}
	}
	p.result.Steps = append(p.result.Steps, r)
	p.onStep(r)
}

func (p *playing) act(ctx context.Context, s Step, r *StepResult) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	action, err := s.filled(p.vars, false)
	if err != nil {
		return err
	}
	c := &Call{World: p.world, Files: p.scenario.Files, Scenario: p.scenario.Name, Vars: p.vars, Memory: p.memory, playing: p, began: time.Now()}
	if w, ok := action.(Watcher); ok {
		c.subjects = w.Subjects()
		p.about = c.subjects
		if err := p.watch(ctx, c.subjects); err != nil {
			return err
		}
	}
	if ch, ok := action.(Changer); ok && ch.Changes() {
		p.cursor = p.recorder.now()
	}
	c.from = p.cursor
	if s.ID != "" {
		p.started[s.ID] = started{c.began, s.Title}
	}
	c.undos = len(p.undos)
	err = action.Do(ctx, c)
	if s, ok := action.(Settler); ok {
		err = s.Settle(c, err)
	}
	r.Did = c.did
	if c.next != nil {
		p.cursor = *c.next
	}
	p.recorder.forget(p.cursor)
	return err
}

func (p *playing) onStep(r StepResult) {
	if p.player.OnStep != nil {
		p.player.OnStep(r)
	}
}

func (p *playing) measure(since string, at time.Time) {
	from := p.started[since]
	p.result.Measures = append(p.result.Measures, Measure{Name: p.current, From: from.title, Took: at.Sub(from.time)})
}
