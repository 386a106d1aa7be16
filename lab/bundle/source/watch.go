package source

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"homelab/lab"
)

// watch tells one caller how far the build of its component is.
type watch struct {
	progress lab.Progress
	start    time.Time
	end      context.CancelFunc
	ended    chan struct{}

	mu    sync.Mutex
	total int
	left  map[string]*Component // not made yet
	doing []activity            // the last one is told
}

type activity struct {
	component *Component
	what      string
	since     time.Time
}

// tellEvery is how often a line about unchanged work is repeated with new times.
const tellEvery = 5 * time.Second

func (b *Builder) newWatch(c *Component, p lab.Progress) (*watch, error) {
	if p == nil {
		p = func(string) {}
	}
	w := &watch{progress: p, start: time.Now(), left: map[string]*Component{}, ended: make(chan struct{})}
	if err := b.missing(c, w.left); err != nil {
		return nil, err
	}
	w.total = len(w.left)
	ctx, cancel := context.WithCancel(context.Background())
	w.end = cancel
	go w.tell(ctx)
	return w, nil
}

// missing collects c and everything it needs that is not in the store.
func (b *Builder) missing(c *Component, into map[string]*Component) error {
	if _, ok := into[c.Name]; ok {
		return nil
	}
	key, err := b.recipes.key(c)
	if err != nil {
		return err
	}
	if _, ok, err := b.store.Lookup(c.Name, key); ok || err != nil {
		return err
	}
	into[c.Name] = c
	for _, need := range c.Needs() {
		if n, ok := b.recipes.Get(need); ok {
			if err := b.missing(n, into); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *watch) tell(ctx context.Context) {
	defer close(w.ended)
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.mu.Lock()
			w.line()
			w.mu.Unlock()
		}
	}
}

func (w *watch) stop() {
	w.end()
	<-w.ended
}

func (w *watch) say(c *Component, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(c)
	w.doing = append(w.doing, activity{component: c, what: what, since: time.Now()})
	w.line()
}

func (w *watch) done(c *Component) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(c)
	delete(w.left, c.Name)
}

func (w *watch) drop(c *Component) {
	kept := w.doing[:0]
	for _, a := range w.doing {
		if a.component != c {
			kept = append(kept, a)
		}
	}
	w.doing = kept
}

// line tells what is being done; the caller holds the lock. A compilation is told before anything that goes on beside it.
func (w *watch) line() {
	if len(w.doing) == 0 {
		return
	}
	now := w.doing[len(w.doing)-1]
	for _, a := range w.doing {
		if strings.HasPrefix(a.what, "compiling ") {
			now = a
		}
	}
	w.progress(fmt.Sprintf("%s, %d of %d made, %s so far%s", now.what, w.total-len(w.left), w.total, round(time.Since(w.start)), w.remaining(now)))
}

func (w *watch) remaining(now activity) string {
	var left time.Duration
	for _, c := range w.left {
		left += time.Duration(c.Seconds) * time.Second
	}
	left -= min(time.Since(now.since), time.Duration(now.component.Seconds)*time.Second)
	if left < time.Second {
		return ""
	}
	return ", about " + round(left) + " left"
}

func round(d time.Duration) string {
	if d >= time.Minute {
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%ds", int(d.Seconds()))
}
