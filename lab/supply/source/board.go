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

// board is the one account of everything that a builder has yet to make, whoever asked for it: compilations take turns, so who waits for a small image
// waits for the large one before it.
type board struct {
	mu       sync.Mutex
	start    time.Time
	total    int
	left     map[string]*Component // not made yet
	doing    []activity            // the last one is told
	rested   time.Time             // since when nothing is being done
	shown    span                  // what was built here so far
	watchers map[*watcher]struct{}
}

type activity struct {
	component *Component
	what      string
	since     time.Time
}

// watcher is one caller who is told how far the builds are, until it stops.
type watcher struct {
	board    *board
	progress lab.Progress
	end      context.CancelFunc
	ended    chan struct{}
}

func newBoard() *board {
	return &board{left: map[string]*Component{}, watchers: map[*watcher]struct{}{}}
}

// tellEvery is how often a line about unchanged work is repeated with new times.
const tellEvery = 5 * time.Second

// expect adds what will be asked for.
func (d *board) expect(missing map[string]*Component) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.left) == 0 && len(d.watchers) == 0 {
		d.start, d.total = time.Now(), 0
	}
	for name, c := range missing {
		if _, ok := d.left[name]; !ok {
			d.left[name] = c
			d.total++
		}
	}
}

// forget takes off what need not be made after all. What is needed for something else is expected again when that is asked for.
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

// watch tells p what goes on, until the watcher is stopped.
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
	tick := time.NewTicker(tellEvery)
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

// say notes what is being done for a component.
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

// learn notes how long a component took on this machine.
func (d *board) learn(c *Component, seconds float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.Seconds >= telling && seconds > 0 {
		d.shown.recipe += float64(c.Seconds)
		d.shown.here += seconds
	}
}

// made notes that a component was built, and how long that took.
func (d *board) made(c *Component, seconds float64) {
	d.learn(c, seconds)
	d.done(c)
}

// done notes that a component is at hand, or was given up.
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

// restless is how long nothing is being done between one component and the next, where there is one.
const restless = 10 * time.Second

// due is how long all that is left will take, and 0 where nobody goes on with it; the caller holds the lock.
func (d *board) due(now time.Time) time.Duration {
	if len(d.left) == 0 || len(d.doing) == 0 && now.Sub(d.rested) > restless {
		return 0
	}
	return d.time()
}

// line says what is being done, empty for nothing; the caller holds the lock. A compilation is told before anything that goes on beside it.
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

// remaining is how long all that is left will take, in words; the caller holds the lock.
func (d *board) remaining() string {
	left := d.time()
	if left < time.Second {
		return ""
	}
	return ", about " + round(left) + " left"
}

// time is how long all that is left will take; the caller holds the lock.
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
	if len(doing) == 0 { // else it goes on beside what takes longer
		doing = append(doing, span{0, fetching})
	}
	seconds := 0.0
	for _, c := range todo {
		seconds += float64(c.Seconds)
	}
	return time.Duration(remaining(d.shown, doing, seconds) * float64(time.Second))
}

// fetches reports whether the activity is one that no recipe has a time for, and that waits for a turn when it has ended.
func (a activity) fetches() bool { return strings.HasPrefix(a.what, "downloading ") }

func round(d time.Duration) string {
	if d >= time.Minute {
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%ds", int(d.Seconds()))
}
