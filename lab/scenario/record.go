package scenario

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"sync"
	"time"
)

// maxObservations bounds memory: a longer log between two steps drops its oldest entries.
const maxObservations = 20_000

// Cursor is a position in the log.
type Cursor struct {
	n  int // observations before it
	at time.Time
}

type observation struct {
	at      time.Time
	subject Subject
	state   State
	version string // resourceVersion of an object
}

// Recorder logs observations in the order of arrival, so that a short-lived state can be found later. Its watches are
// the only goroutines of this package; Close stops them.
type Recorder struct {
	world World
	began time.Time

	stop context.CancelFunc
	done sync.WaitGroup
	ctx  context.Context // ends with Close; watches outlive a step

	mu      sync.Mutex
	base    View // state before log[0]
	first   int  // observations before log[0]
	log     []observation
	floors  map[Subject]string // the story's own changes; older observations are ignored
	watched map[Subject]*watching
	changed chan struct{}        // closed at the next observation
	current View                 // latest state
	facets  map[Subject][]string // fields of an object on the timeline
	marks   []Mark
	last    map[Subject]string
}

func newRecorder(ctx context.Context, w World, began time.Time) *Recorder {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	return &Recorder{
		world: w, began: began, ctx: ctx, stop: stop, base: View{}, floors: map[Subject]string{}, watched: map[Subject]*watching{},
		changed: make(chan struct{}), current: View{}, facets: map[Subject][]string{}, last: map[Subject]string{},
	}
}

// closeTimeout is how long Close waits for watches that ignore their context.
const closeTimeout = 5 * time.Second

// Close stops all watches.
func (r *Recorder) Close() {
	r.stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.done.Wait()
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}

// see logs an observation.
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

// lose marks subjects as unknown because their source fell silent. That is an observation like others: expectations met
// before stay met, later ones need a new observation.
func (r *Recorder) lose(which func(Subject) bool, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range sortedSubjects(r.current) {
		was := r.current[s]
		news := was.Known || was.Why != why.Error() && !errors.Is(why, errStartOver) // a restart explains less than the original error
		if which(s) && news {
			r.seeLocked(s, State{Lost: was.Known || was.Lost, Why: why.Error()}, "")
		}
	}
}

// now returns the end of the log.
func (r *Recorder) now() Cursor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Cursor{n: r.first + len(r.log), at: time.Now()}
}

// forget drops the log before a cursor.
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

// take applies an observation. Events are transient: await accumulates them.
func (v View) take(o observation, floors map[Subject]string) {
	if floor, ok := floors[o.subject]; ok && older(o.version, floor) {
		return
	}
	v[o.subject] = o.state
}

// older compares resource versions, which clients may compare as numbers since Kubernetes 1.35 (KEP-5504) and which
// always were numbers.
func older(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x < y
}

// floor records the version of the story's own change to an object: older observations are ignored.
func (r *Recorder) floor(s Subject, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.floors[s] = version
	if state, ok := r.base[s]; ok && older(versionOf(state.Object), version) {
		delete(r.base, s)
	}
}

// view returns the state at a cursor.
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
		if s.isEvents() { // events are transient
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
