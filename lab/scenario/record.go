package scenario

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"
)

// maxObservations bounds the memory of a story: a watch that tells more between two steps loses its oldest.
const maxObservations = 20_000

// Cursor is a moment in what was seen.
type Cursor struct {
	n  int // observations before it
	at time.Time
}

// observation is one thing that was seen.
type observation struct {
	at      time.Time
	subject Subject
	state   State
	version string // resourceVersion of an object
}

// Recorder keeps what was seen of the world, in the order in which it came, so that a state that held for a moment is not missed by who looks later. Its
// watches are the goroutines of this package; Close ends them.
type Recorder struct {
	world World
	began time.Time

	stop context.CancelFunc
	done sync.WaitGroup
	ctx  context.Context // ends with Close; watches outlive a step

	mu      sync.Mutex
	base    View // the world before log[0]
	first   int  // observations before log[0]
	log     []observation
	floors  map[Subject]string // what is older than a change of the story's own says nothing
	watched map[Subject]*watching
	changed chan struct{} // closed at the next observation
	failed  error
	facets  map[Subject][]string // what of an object the timeline shows
	marks   []Mark
	last    map[Subject]string
}

// watching is a watch that was started.
type watching struct {
	ready chan struct{} // closed once it was looked
	once  sync.Once
}

func (w *watching) looked() { w.once.Do(func() { close(w.ready) }) }

// newRecorder starts to watch the engine.
func newRecorder(ctx context.Context, w World, began time.Time) *Recorder {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	return &Recorder{
		world: w, began: began, ctx: ctx, stop: stop, base: View{}, floors: map[Subject]string{}, watched: map[Subject]*watching{},
		changed: make(chan struct{}), facets: map[Subject][]string{}, last: map[Subject]string{},
	}
}

// Close ends all watches.
func (r *Recorder) Close() {
	r.stop()
	r.done.Wait()
}

// see takes an observation.
func (r *Recorder) see(s Subject, state State, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.log = append(r.log, observation{at: now, subject: s, state: state, version: version})
	if len(r.log) > maxObservations {
		r.fold(r.first + len(r.log) - maxObservations)
	}
	r.mark(s, state, now)
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *Recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = err
		close(r.changed)
		r.changed = make(chan struct{})
	}
}

// now is the moment after everything that was seen so far.
func (r *Recorder) now() Cursor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Cursor{n: r.first + len(r.log), at: time.Now()}
}

// forget drops what lies before a moment.
func (r *Recorder) forget(before Cursor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fold(before.n)
}

func (r *Recorder) fold(before int) {
	n := min(max(0, before-r.first), len(r.log))
	for _, o := range r.log[:n] {
		r.base.take(o, r.floors)
	}
	r.log = append([]observation(nil), r.log[n:]...)
	r.first += n
}

// take puts an observation into a view. Events are of the moment: they are kept by who looks.
func (v View) take(o observation, floors map[Subject]string) {
	if floor, ok := floors[o.subject]; ok && older(o.version, floor) {
		return
	}
	v[o.subject] = o.state
}

// older compares resource versions, which the API has let clients compare as numbers since 1.35 (KEP-5504) and which always were.
func older(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x < y
}

// Floor says that the story itself changed an object: what was seen of it before says nothing of what follows.
func (r *Recorder) floor(s Subject, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.floors[s] = version
	if state, ok := r.base[s]; ok && older(versionOf(state.Object), version) {
		delete(r.base, s)
	}
}

// view is the world at a moment.
func (r *Recorder) view(at Cursor) View {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.viewLocked(at)
}

func (r *Recorder) viewLocked(at Cursor) View {
	v := maps.Clone(r.base)
	for i, o := range r.log {
		if r.first+i >= at.n {
			break
		}
		v.take(o, r.floors)
	}
	for s, state := range v {
		if s.isEvents() { // what happened before is no event any more
			v[s] = State{Known: state.Known}
		}
	}
	return v
}

// Judgement is what an expectation says of a view.
type Judgement struct {
	Met      bool
	Expected string
	Seen     string // of what is not met
	Subject  Subject
}

// Wish is what is waited for.
type Wish struct {
	Judge func(View) Judgement
	From  Cursor
	By    time.Time     // no later than this
	Stays time.Duration // and then for so long
}

// Outcome is how a wait ended.
type Outcome struct {
	Judgement
	View   View      // when it was met
	At     time.Time // when it became true
	Cursor Cursor    // the moment at which it was met, or after its stay
	Since  time.Time // when Seen became what it is
}

// Await looks for a wish in what was seen from a moment on, and waits for more as long as there is time. An error is that of ctx or of a watch.
func (r *Recorder) await(ctx context.Context, w Wish) (Outcome, error) {
	r.mu.Lock()
	v := r.viewLocked(w.From)
	next := max(w.From.n, r.first)
	r.mu.Unlock()
	events := map[Subject][]map[string]any{}

	a := attempt{wish: w}
	a.look(v, next, w.From.at)
	for {
		r.mu.Lock()
		for next-r.first < len(r.log) && !a.done {
			o := r.log[next-r.first]
			if a.elapsed(o.at, next); a.done {
				break
			}
			next++
			if o.state.Events != nil { // since the moment from which on is looked
				events[o.subject] = append(events[o.subject], o.state.Events...)
				o.state.Events = events[o.subject]
			}
			v.take(o, r.floors)
			a.look(v, next, o.at)
		}
		changed, failed := r.changed, r.failed
		r.mu.Unlock()
		if !a.done {
			a.elapsed(time.Now(), next)
		}
		switch {
		case a.done:
			return a.outcome, nil
		case failed != nil:
			return a.outcome, failed
		}
		timer := time.NewTimer(a.until())
		select {
		case <-ctx.Done():
			timer.Stop()
			return a.outcome, context.Cause(ctx)
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// attempt is one wait under way.
type attempt struct {
	wish    Wish
	outcome Outcome
	met     bool
	done    bool
}

// look judges a view as of a moment.
func (a *attempt) look(v View, at int, when time.Time) {
	if when.After(a.wish.By) && !a.met {
		return // too late to become true
	}
	j := a.wish.Judge(v)
	if a.outcome.Since.IsZero() || j.Seen != a.outcome.Seen || j.Met != a.outcome.Met {
		a.outcome.Since = when
	}
	a.outcome.Judgement = j
	switch {
	case !j.Met:
		a.met = false
	case !a.met:
		a.met, a.outcome.At, a.outcome.View = true, when, maps.Clone(v)
		if a.wish.Stays == 0 {
			a.done, a.outcome.Cursor = true, Cursor{at, when}
		}
	}
}

// elapsed ends the wait when time has: met for long enough, or not met in time.
func (a *attempt) elapsed(now time.Time, at int) {
	switch {
	case a.met && now.Sub(a.outcome.At) >= a.wish.Stays:
		a.done, a.outcome.Cursor = true, Cursor{at, a.outcome.At.Add(a.wish.Stays)}
	case !a.met && !now.Before(a.wish.By):
		a.done = true
	}
}

func (a *attempt) until() time.Duration {
	if a.met {
		return time.Until(a.outcome.At.Add(a.wish.Stays))
	}
	return time.Until(a.wish.By)
}

func versionOf(object map[string]any) string {
	m, _ := object["metadata"].(map[string]any)
	v, _ := m["resourceVersion"].(string)
	return v
}

// lookWithin is how long the first look at a subject may take. What cannot be seen by then is told by who waits for it: a cluster may be paused.
const lookWithin = 15 * time.Second

// watch starts to watch subjects and waits until each was looked at once.
func (r *Recorder) watch(ctx context.Context, subjects []Subject) error {
	timer := time.NewTimer(lookWithin)
	defer timer.Stop()
	var started []*watching
	for _, s := range subjects {
		started = append(started, r.start(s))
	}
	for _, w := range started {
		select {
		case <-w.ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return nil
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *Recorder) start(s Subject) *watching {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := s
	if s.isApplication() {
		key = Subject{Addon: "*"} // one watch tells of all
	}
	if w, ok := r.watched[key]; ok {
		return w
	}
	w := &watching{ready: make(chan struct{})}
	r.watched[key] = w
	r.done.Go(func() {
		if err := r.run(s, w); err != nil && r.ctx.Err() == nil {
			r.fail(fmt.Errorf("watch %s: %w", s, err))
			w.looked()
		}
	})
	return w
}
