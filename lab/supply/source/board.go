package source

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"homelab/lab"
)

// board tracks all pending builds of a builder, whoever requested them: compilations are serialized, so a small image
// waits for a large one before it.
type board struct {
	mu       sync.Mutex
	start    time.Time
	total    int
	left     map[string]*Component // not built yet
	doing    []activity            // the last one is shown
	rested   time.Time             // idle since
	shown    span                  // what was built on this machine
	watchers map[*watcher]struct{}
	every    time.Duration // between updates about the same activity
}

type activity struct {
	component *Component
	what      string
	since     time.Time
}

// watcher is a caller that receives progress.
type watcher struct {
	board    *board
	progress lab.Progress
	end      context.CancelFunc
	ended    chan struct{}
}

func newBoard() *board {
	return &board{left: map[string]*Component{}, watchers: map[*watcher]struct{}{}, every: 5 * time.Second}
}

// expect adds pending components.
func (d *board) expect(missing map[string]*Component) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.start.IsZero() || len(d.left) == 0 && len(d.watchers) == 0 {
		d.start, d.total = time.Now(), 0
	}
	for name, c := range missing {
		if _, ok := d.left[name]; !ok {
			d.left[name] = c
			d.total++
		}
	}
}

// forget removes components that need not be built. Their dependencies shared with others are added again later.
func (d *board) forget(missing map[string]*Component) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range missing {
		if _, ok := d.left[name]; ok {
			delete(d.left, name)
			d.total--
		}
	}
}

// watch reports progress to p until the watcher is stopped.
func (d *board) watch(p lab.Progress) *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{board: d, progress: p, end: cancel, ended: make(chan struct{})}
	d.mu.Lock()
	d.watchers[w] = struct{}{}
	d.mu.Unlock()
	go w.tell(ctx)
	return w
}

func (w *watcher) tell(ctx context.Context) {
	defer close(w.ended)
	tick := time.NewTicker(w.board.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.board.mu.Lock()
			if line := w.board.line(); line != "" {
				w.progress(line)
			}
			w.board.mu.Unlock()
		}
	}
}

func (w *watcher) stop() {
	w.end()
	<-w.ended
	w.board.mu.Lock()
	defer w.board.mu.Unlock()
	delete(w.board.watchers, w)
}

// say sets the current activity of a component.
func (d *board) say(c *Component, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(c)
	d.doing = append(d.doing, activity{component: c, what: what, since: time.Now()})
	line := d.line()
	for w := range d.watchers {
		w.progress(line)
	}
}

// learn records the build time of a component on this machine.
func (d *board) learn(c *Component, seconds float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.Seconds >= minSpan && seconds > 0 {
		d.shown.recipe += float64(c.Seconds)
		d.shown.here += seconds
	}
}

// made records a finished build.
func (d *board) made(c *Component, seconds float64) {
	d.learn(c, seconds)
	d.done(c)
}

// done removes a component that is present or failed.
func (d *board) done(c *Component) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(c)
	delete(d.left, c.Name)
}

func (d *board) drop(c *Component) {
	kept := d.doing[:0]
	for _, a := range d.doing {
		if a.component.Name != c.Name {
			kept = append(kept, a)
		}
	}
	if len(kept) == 0 && len(d.doing) > 0 {
		d.rested = time.Now()
	}
	d.doing = kept
}

// idleLimit is how long the board may be idle between components before it counts as stopped.
const idleLimit = 10 * time.Second

// due returns the estimated time left, or 0 while idle. d.mu is held.
func (d *board) due(now time.Time) time.Duration {
	if len(d.left) == 0 || len(d.doing) == 0 && now.Sub(d.rested) > idleLimit {
		return 0
	}
	return d.time()
}

// line returns the current activity, or "". Compilations take precedence. d.mu is held.
func (d *board) line() string {
	if len(d.doing) == 0 {
		return ""
	}
	now := d.doing[len(d.doing)-1]
	for _, a := range d.doing {
		if strings.HasPrefix(a.what, "compiling ") {
			now = a
		}
	}
	return fmt.Sprintf("%s, %d of %d made, %s so far%s", now.what, d.total-len(d.left), d.total, round(time.Since(d.start)), d.remaining())
}

// remaining formats the time left. d.mu is held.
func (d *board) remaining() string {
	left := d.time()
	if left < time.Second {
		return ""
	}
	return ", about " + round(left) + " left"
}

// time estimates the time left. d.mu is held.
func (d *board) time() time.Duration {
	var doing []span
	var fetching float64 // the longest download
	todo := map[string]*Component{}
	maps.Copy(todo, d.left)
	for _, a := range d.doing {
		c, here := a.component, time.Since(a.since).Seconds()
		if a.fetches() {
			fetching = max(fetching, here)
			continue
		}
		doing = append(doing, span{float64(c.Seconds), here})
		delete(todo, c.Name)
	}
	if len(doing) == 0 { // otherwise concurrent with something longer
		doing = append(doing, span{0, fetching})
	}
	seconds := 0.0
	for _, c := range todo {
		seconds += float64(c.Seconds)
	}
	return time.Duration(remaining(d.shown, doing, seconds) * float64(time.Second))
}

// fetches reports whether the activity is a download, which has no estimate.
func (a activity) fetches() bool { return strings.HasPrefix(a.what, "downloading ") }

func round(d time.Duration) string {
	if d >= time.Minute {
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%ds", int(d.Seconds()))
}
