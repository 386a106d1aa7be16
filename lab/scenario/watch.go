package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"homelab/lab"
)

// Timeouts of watches.
const (
	listTimeout = 15 * time.Second // first list; later, the waiter reports missing objects
	callTimeout = 10 * time.Second // one call to a cluster
	probeEvery  = 5 * time.Second  // probe interval: the watch of a frozen cluster is merely silent
	watchRetry  = time.Second      // pause before a watch is restarted
)

type watching struct {
	of    Subject
	ready chan struct{} // closed after the first list or an error
	once  sync.Once
	again chan struct{} // requests a restart
	err   error         // error of the first list; read after ready
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

// watch starts watches and waits for their first lists.
func (r *Recorder) watch(ctx context.Context, subjects []Subject) error {
	timer := time.NewTimer(listTimeout)
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
		s = Applications() // one watch covers all applications
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
			r.lose(w.covers, err)
			w.fail(fmt.Errorf("watch %s: %w", s, err))
		}
	})
	return w
}

// covers reports whether a watch is the source of a subject.
func (w *watching) covers(s Subject) bool {
	return s == w.of || s.isApplication() && w.of.isApplication()
}

// silence marks a cluster's subjects as unknown because the story cut it off, and restarts their watches.
func (r *Recorder) silence(cluster, why string) {
	r.mu.Lock()
	var hit []Subject
	for s := range r.watched {
		if s.Cluster == cluster || s.isApplication() && cluster == r.world.Estate.Hub().Name {
			hit = append(hit, s)
		}
	}
	r.mu.Unlock()
	for _, s := range hit {
		r.startOver(s, why)
	}
}

// run watches until the recorder is closed. Only errors before the first list are returned; later the watch is
// restarted.
func (r *Recorder) run(w *watching) error {
	if w.of.isApplication() {
		return r.follow(w)
	}
	o := observer{recorder: r, watching: w}
	for r.ctx.Err() == nil {
		client, err := r.clusters().Client(w.of.Cluster)
		if err != nil {
			return err
		}
		if o.resource, err = r.resource(client, w); err != nil {
			return err
		}
		err = o.once(r.ctx)
		switch {
		case r.ctx.Err() != nil:
			return nil
		case apierrors.IsNotFound(err): // the definition is gone, and what was of its kind
			meta.MaybeResetRESTMapper(client.Mapper)
			r.absent(w.of)
			w.looked()
		default:
			r.lose(w.covers, err)
		}
		_ = lab.Sleep(r.ctx, watchRetry) // the loop sees r.ctx end
	}
	return nil
}

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
		r.lose(w.covers, err)
		_ = lab.Sleep(r.ctx, watchRetry) // the loop sees r.ctx end
	}
}

// applications runs one watch of the engine until it ends or is restarted.
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
	err := r.engine().Watch(ctx, func(a Application) {
		state := State{Known: true, Application: &a}
		if a.Gone {
			state.Application = nil
		}
		r.see(a.Subject(), state, "")
	}, func() {
		r.complete()
		w.looked()
	})
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return err
}

func (r *Recorder) engine() Engine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.world.Engine
}

func (r *Recorder) clusters() Clusters {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.world.Clusters
}

// replaced makes the recorder follow another engine, and other clusters from their next watch on.
func (r *Recorder) replaced(by World) {
	r.mu.Lock()
	r.world.Engine, r.world.Clusters = by.Engine, by.Clusters
	r.mu.Unlock()
	r.startOver(Applications(), "its engine was replaced")
}

// startOver marks a watch's subjects as unknown and restarts it.
func (r *Recorder) startOver(s Subject, why string) {
	r.mu.Lock()
	w, ok := r.watched[s]
	r.mu.Unlock()
	if !ok {
		return
	}
	r.lose(w.covers, errors.New(why))
	select {
	case w.again <- struct{}{}:
	default: // restart already pending
	}
}

var errStartOver = errors.New("the watch is restarted")

// complete records that all applications were reported: lost ones not seen again are gone.
func (r *Recorder) complete() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range sortedSubjects(r.current) {
		if s.isApplication() && !r.current[s].Known {
			r.seeLocked(s, State{Known: true}, "")
		}
	}
}

// resource finds the resource of a kind. An unknown kind, such as that of a CRD not installed yet, has no objects;
// discovery is retried.
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
		default: // queried for this call only
			r.lose(w.covers, err)
		}
		if err := lab.Sleep(r.ctx, watchRetry); err != nil {
			return nil, err
		}
	}
}

// absent records that an object does not exist, unless known.
func (r *Recorder) absent(s Subject) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if was := r.current[s]; !was.Known || was.Object != nil {
		r.seeLocked(s, State{Known: true}, "")
	}
}

// Resource returns the client of the subject's kind.
func (c Client) Resource(s Subject) (dynamic.ResourceInterface, error) {
	gv, err := schema.ParseGroupVersion(s.APIVersion)
	if err != nil {
		return nil, err
	}
	mapping, err := c.Mapper.RESTMapping(gv.WithKind(s.Kind).GroupKind(), gv.Version)
	if meta.IsNoMatchError(err) { // its definition may be newer than what the mapper has discovered
		meta.MaybeResetRESTMapper(c.Mapper)
		mapping, err = c.Mapper.RESTMapping(gv.WithKind(s.Kind).GroupKind(), gv.Version)
	}
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.Dynamic.Resource(mapping.Resource), nil
	}
	if s.Namespace == "" {
		return nil, fmt.Errorf("%s %s is namespaced and has no namespace", s.Kind, s.Name)
	}
	return c.Dynamic.Resource(mapping.Resource).Namespace(s.Namespace), nil
}
