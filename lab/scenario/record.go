package scenario

import (
	"context"
	"errors"
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
	changed chan struct{}        // closed at the next observation
	current View                 // what was seen last
	facets  map[Subject][]string // what of an object the timeline shows
	marks   []Mark
	last    map[Subject]string
}

// newRecorder watches nothing yet.
func newRecorder(ctx context.Context, w World, began time.Time) *Recorder {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	return &Recorder{
		world: w, began: began, ctx: ctx, stop: stop, base: View{}, floors: map[Subject]string{}, watched: map[Subject]*watching{},
		changed: make(chan struct{}), current: View{}, facets: map[Subject][]string{}, last: map[Subject]string{},
	}
}

// closeWithin is how long Close waits for watches that do not heed their context.
const closeWithin = 5 * time.Second

// Close ends all watches.
func (r *Recorder) Close() {
	r.stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.done.Wait()
	}()
	timer := time.NewTimer(closeWithin)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}

// see takes an observation.
func (r *Recorder) see(s Subject, state State, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seeLocked(s, state, version)
}

func (r *Recorder) seeLocked(s Subject, state State, version string) {
	now := time.Now()
	r.log = append(r.log, observation{at: now, subject: s, state: state, version: version})
	if len(r.log) > maxObservations {
		r.fold(r.first + len(r.log) - maxObservations)
	}
	r.current[s] = state
	r.mark(s, state, now)
	close(r.changed)
	r.changed = make(chan struct{})
}

// lose notes that nobody tells of subjects any more: what was seen of them before need not be so still. It is an observation like others, so what was met before
// it stays met, and what is looked for after it needs to be seen again.
func (r *Recorder) lose(which func(Subject) bool, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range sortedSubjects(r.current) {
		was := r.current[s]
		news := was.Known || was.Why != why.Error() && !errors.Is(why, errStartOver) // that it starts over says less than why
		if which(s) && news {
			r.seeLocked(s, State{Lost: was.Known || was.Lost, Why: why.Error()}, "")
		}
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
			state.Events = nil
			v[s] = state
		}
	}
	return v
}

func versionOf(object map[string]any) string {
	m, _ := object["metadata"].(map[string]any)
	v, _ := m["resourceVersion"].(string)
	return v
}
