package scenariotest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"homelab/lab/scenario"
)

// Hub is an engine with at least one application whose hub can be silenced.
type Hub struct {
	Engine   scenario.Engine
	Shut     func()
	Open     func()
	Patience time.Duration // longer than the detection of a silence takes
	Expects  []scenario.Subject
}

type watched struct {
	mu    sync.Mutex
	seen  []scenario.Subject
	early []scenario.Subject // seen before ready
	ready chan struct{}
	ended chan error
	stop  context.CancelFunc
}

func (h Hub) watch(t *testing.T) *watched {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &watched{ready: make(chan struct{}), ended: make(chan error, 1), stop: stop}
	go func() {
		w.ended <- h.Engine.Watch(ctx, func(a scenario.Application) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.seen = append(w.seen, scenario.ApplicationOf(a.Cluster, a.Addon))
		}, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.early = slices.Clone(w.seen)
			close(w.ready)
		})
	}()
	return w
}

// EngineContract tests that an engine reports unknown objects as unknown, never as absent.
func EngineContract(t *testing.T, h Hub) {
	t.Helper()
	all := func(when string, w *watched) {
		t.Helper()
		select {
		case <-w.ready:
		case err := <-w.ended:
			t.Fatalf("%s: ended before it was ready: %v", when, err)
		case <-time.After(h.Patience):
			t.Fatalf("%s: never ready", when)
		}
		for _, s := range h.Expects {
			if !slices.Contains(w.early, s) {
				t.Errorf("%s: ready before %s was reported", when, s)
			}
		}
	}
	// Ready follows all applications, and a watch ends with its context.
	w := h.watch(t)
	all("at first", w)
	w.stop()
	select {
	case <-w.ended:
	case <-time.After(h.Patience):
		t.Fatal("a watch outlives its context")
	}
	// A silent hub ends the watch with an error.
	w = h.watch(t)
	all("again", w)
	h.Shut()
	select {
	case err := <-w.ended:
		if err == nil {
			t.Error("the watch of a silent hub ended without an error")
		}
	case <-time.After(h.Patience):
		t.Fatal("the watch of a silent hub does not end")
	}
	w.stop()
	// No watch becomes ready during the silence.
	w = h.watch(t)
	select {
	case <-w.ready:
		t.Error("the watch of a silent hub is ready")
	case <-w.ended:
	case <-time.After(h.Patience):
	}
	w.stop()
	// Other calls end with their context.
	ctx, cancel := context.WithTimeout(t.Context(), h.Patience/10)
	defer cancel()
	if _, err := h.Engine.Registration(ctx, h.Expects[0].Cluster); err == nil {
		t.Error("no error for Registration of a silent hub")
	}
	if _, err := h.Engine.Settled(ctx); err == nil {
		t.Error("no error for Settled of a silent hub")
	}
	if err := h.Engine.Follow(ctx, "", nil, func() {}); err == nil {
		t.Error("no error for Follow of a silent hub")
	}
	if err := h.Engine.Refresh(ctx); err == nil {
		t.Error("no error for Refresh of a silent hub")
	}
	// Once it answers, all applications are reported again.
	h.Open()
	w = h.watch(t)
	all("after the silence", w)
	w.stop()
	<-w.ended
}
