package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// How long watches are patient.
const (
	lookWithin   = 15 * time.Second // the first look: what cannot be seen by then is told by who waits for it
	answerWithin = 10 * time.Second // one call to a cluster
	beatEvery    = 5 * time.Second  // a watch of a frozen cluster is only silent, so it is asked
	watchAgain   = time.Second      // after a watch ended
)

// watching is a watch that was started.
type watching struct {
	of    Subject
	ready chan struct{} // closed once it was looked, or cannot be
	once  sync.Once
	again chan struct{} // the watch is to start over
	err   error         // why it cannot be looked; to be read once ready
}

func (w *watching) looked() { w.once.Do(func() { close(w.ready) }) }

func (w *watching) fail(err error) {
	w.once.Do(func() {
		w.err = err
		close(w.ready)
	})
}

func (w *watching) isReady() bool {
	select {
	case <-w.ready:
		return true
	default:
		return false
	}
}

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
			if w.err != nil {
				return w.err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return nil
		}
	}
	return nil
}

func (r *Recorder) start(s Subject) *watching {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.isApplication() {
		s = Applications() // one watch tells of all
	}
	if w, ok := r.watched[s]; ok {
		return w
	}
	w := &watching{of: s, ready: make(chan struct{}), again: make(chan struct{}, 1)}
	r.watched[s] = w
	if _, seen := r.current[s]; !seen {
		r.current[s] = State{}
	}
	r.done.Go(func() {
		if err := r.run(w); err != nil && r.ctx.Err() == nil {
			r.lose(w.tells, err)
			w.fail(fmt.Errorf("watch %s: %w", s, err))
		}
	})
	return w
}

// tells reports whether a watch is what tells of a subject.
func (w *watching) tells(s Subject) bool {
	return s == w.of || s.isApplication() && w.of.isApplication()
}

// silence notes that the story itself made a cluster silent: what was seen of it is not known any more, and it is looked at again as soon as it answers.
func (r *Recorder) silence(cluster, why string) {
	r.mu.Lock()
	var hit []*watching
	for s, w := range r.watched {
		if s.Cluster == cluster || s.isApplication() && cluster == r.world.Estate.Hub().Name {
			hit = append(hit, w)
		}
	}
	r.mu.Unlock()
	for _, w := range hit {
		r.lose(w.tells, errors.New(why))
		select {
		case w.again <- struct{}{}:
		default: // it is to start over already
		}
	}
}

// run watches until the recorder is closed. An error is one before anything was seen; a watch that ends later starts over.
func (r *Recorder) run(w *watching) error {
	if w.of.isApplication() {
		return r.follow(w)
	}
	client, err := r.world.Clusters.Client(w.of.Cluster)
	if err != nil {
		return err
	}
	resource, err := r.resource(client, w)
	if err != nil {
		return err
	}
	o := observer{recorder: r, resource: resource, watching: w}
	for r.ctx.Err() == nil {
		err := o.once(r.ctx)
		if r.ctx.Err() == nil {
			r.lose(w.tells, err)
			r.pass(watchAgain)
		}
	}
	return nil
}

// pass lets time pass, until the recorder is closed.
func (r *Recorder) pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.ctx.Done():
	case <-timer.C:
	}
}

// follow watches the engine.
func (r *Recorder) follow(w *watching) error {
	for first := true; ; first = false {
		err := r.applications(w)
		switch {
		case r.ctx.Err() != nil:
			return nil
		case err == nil:
			err = errors.New("its watch ended")
		}
		if first && !w.isReady() && !errors.Is(err, errStartOver) {
			return err
		}
		r.lose(w.tells, err)
		r.pass(watchAgain)
	}
}

// applications watches the engine once: until its watch ends, or is to start over.
func (r *Recorder) applications(w *watching) error {
	ctx, stop := context.WithCancelCause(r.ctx)
	defer stop(nil)
	r.done.Go(func() {
		select {
		case <-w.again:
			stop(errStartOver)
		case <-ctx.Done():
		}
	})
	err := r.world.Engine.Watch(ctx, func(a Application) {
		state := State{Known: true, Application: &a}
		if a.Gone {
			state.Application = nil
		}
		r.see(ApplicationOf(a.Cluster, a.Addon), state, "")
	}, func() {
		r.complete()
		w.looked()
	})
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return err
}

var errStartOver = errors.New("it is looked at again")

// complete notes that the engine has told of every application that there is: those that were lost and not seen again are gone.
func (r *Recorder) complete() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range sortedSubjects(r.current) {
		if s.isApplication() && !r.current[s].Known {
			r.seeLocked(s, State{Known: true}, "")
		}
	}
}

// resource finds where objects of a kind are. A kind that is not known yet comes with an addon: there is no object of it then, and it is asked for again.
func (r *Recorder) resource(client Client, w *watching) (dynamic.ResourceInterface, error) {
	for {
		resource, err := client.Resource(w.of)
		switch {
		case err == nil:
			return resource, nil
		case meta.IsNoMatchError(err):
			r.absent(w.of)
			w.looked()
		case !w.isReady():
			return nil, err
		default: // one of the moment
			r.lose(w.tells, err)
		}
		if r.pass(watchAgain); r.ctx.Err() != nil {
			return nil, r.ctx.Err()
		}
	}
}

// absent notes that there is no object, unless that is known.
func (r *Recorder) absent(s Subject) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if was := r.current[s]; !was.Known || was.Object != nil {
		r.seeLocked(s, State{Known: true}, "")
	}
}

// Resource is where objects like the subject are found in a cluster.
func (c Client) Resource(s Subject) (dynamic.ResourceInterface, error) {
	gv, err := schema.ParseGroupVersion(s.APIVersion)
	if err != nil {
		return nil, err
	}
	mapping, err := c.Mapper.RESTMapping(gv.WithKind(s.Kind).GroupKind(), gv.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.Dynamic.Resource(mapping.Resource), nil
	}
	if s.Namespace == "" {
		return nil, fmt.Errorf("%s %s is in a namespace, and none is named", s.Kind, s.Name)
	}
	return c.Dynamic.Resource(mapping.Resource).Namespace(s.Namespace), nil
}
