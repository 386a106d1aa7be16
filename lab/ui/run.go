package ui

import (
	"fmt"
	"strings"
	"time"

	"homelab/lab"
)

const (
	frameEvery = 100 * time.Millisecond // the spinner's step on a terminal
	checkEvery = time.Second            // how often plain mode looks whether there is something to say
	sayEvery   = 10 * time.Second       // how often plain mode tells what a running step does now, if that changed
	sayAnyway  = time.Minute            // and if it did not: CI systems end jobs that are silent for long
)

// row is what is known of one step.
type row struct {
	step    lab.Step
	state   lab.StepState
	detail  string
	elapsed time.Duration // as of seen
	seen    time.Time     // when the last event came
	told    string        // plain mode: the detail that was printed last
	toldAt  time.Time
}

func (w *row) settled() bool {
	switch w.state {
	case lab.StepDone, lab.StepFailed, lab.StepStopped, lab.StepSkipped:
		return true
	}
	return false
}

// underWay reports whether the step has begun and not ended, after an interrupt too.
func (w *row) underWay() bool { return w.state == lab.StepRunning || w.state == lab.StepStopping }

// took is how long the step has been running at now.
func (w *row) took(now time.Time) time.Duration {
	if w.underWay() {
		return w.elapsed + now.Sub(w.seen)
	}
	return w.elapsed
}

// run is one view of a running plan. All methods are called with the UI's lock held.
type run struct {
	ui      *UI
	header  string
	began   time.Time
	rows    []*row
	byID    map[string]*row
	stop    chan struct{}
	stopped chan struct{}
	shown   bool // the header is out
	screen  screen

	waits  string    // plain mode: what was said last to be waited for after an interrupt
	waitAt time.Time // and when
}

// Begin shows a plan that starts to run. Steps that change nothing stay off the screen. End must follow.
func (u *UI) Begin(header string, steps []lab.Step) {
	u.End()
	u.mu.Lock()
	defer u.mu.Unlock()
	r := &run{
		ui: u, header: clean(header), began: u.opts.Clock(), byID: map[string]*row{},
		stop: make(chan struct{}), stopped: make(chan struct{}),
		screen: screen{out: u.opts.Err},
	}
	for _, s := range steps {
		r.add(s)
	}
	u.run = r
	every := checkEvery
	if u.opts.TTY {
		every = frameEvery
		r.draw(false)
	}
	// The one goroutine of this package: a spinner turns while nobody calls. End waits for it.
	go u.tick(r, every)
}

func (u *UI) tick(r *run, every time.Duration) {
	defer close(r.stopped)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-ticker.C:
			u.mu.Lock()
			if u.opts.TTY {
				r.draw(false)
			} else {
				r.remind()
			}
			u.mu.Unlock()
		}
	}
}

// Event takes what happened to a step. It never blocks on the terminal longer than one write, and may be called from several goroutines.
func (u *UI) Event(e lab.Event) {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := u.run
	if r == nil {
		return
	}
	w := r.byID[e.Step.ID]
	if w == nil {
		w = r.add(e.Step)
	}
	if w.settled() {
		return // progress that was under way when the step ended
	}
	now := u.opts.Clock()
	before := w.state
	switch {
	case e.Elapsed > 0:
		w.elapsed = e.Elapsed
	case w.underWay():
		w.elapsed += now.Sub(w.seen)
	}
	w.state, w.detail, w.seen = e.State, clean(e.Detail), now
	if !u.opts.TTY && before != w.state {
		since := e.Since
		if since <= 0 {
			since = now.Sub(r.began)
		}
		r.tell(w, since, now)
	}
}

// End leaves the last state on the screen and gives the cursor back. It may be called again.
func (u *UI) End() {
	u.mu.Lock()
	r := u.run
	if r == nil {
		u.mu.Unlock()
		return
	}
	u.run = nil
	u.mu.Unlock()
	close(r.stop)
	<-r.stopped
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.opts.TTY {
		r.draw(true)
		return
	}
	r.tellStopped()
	if r.shown {
		u.write(u.opts.Err, "\n")
	}
}

func (r *run) add(s lab.Step) *row {
	w := &row{step: s, state: lab.StepWaiting}
	r.rows = append(r.rows, w)
	r.byID[s.ID] = w
	return w
}

func (r *run) say(line string) {
	if r.ui.opts.TTY {
		columns, _ := r.size()
		r.screen.above(line, columns)
		return
	}
	r.ui.write(r.ui.opts.Err, line+"\n")
}

// visible reports whether a row is worth a line: what changes something, what fails, and on the screen what is being waited for just now.
func (w *row) visible(final bool) bool {
	switch {
	case w.step.Action != lab.ActionNone, w.state == lab.StepFailed:
		return true
	case final:
		return false
	}
	return w.underWay()
}

// finishing says, after an interrupt, what the run still waits for; empty where it is for nothing.
func (r *run) finishing() string {
	var titles []string
	for _, w := range r.rows {
		if w.state == lab.StepStopping {
			titles = append(titles, clean(w.step.Title()))
		}
	}
	if len(titles) == 0 {
		return ""
	}
	return "finishing what cannot be stopped: " + strings.Join(titles, ", ")
}

// text is what stands beside the title.
func (r *run) text(w *row, final bool) string {
	switch w.state {
	case lab.StepStopped:
		return stoppedWhile(w.detail)
	case lab.StepRunning, lab.StepStopping:
		if final {
			return stoppedWhile(w.detail)
		}
		return firstOf(w.detail, w.step.Reason)
	case lab.StepDone:
		// A change is shown by its reason; what is new or mended, by what it became.
		if w.step.Action == lab.ActionUpdate || w.step.Action == lab.ActionDelete {
			return firstOf(clean(w.step.Reason), w.detail)
		}
		return firstOf(w.detail, clean(w.step.Reason))
	case lab.StepFailed:
		return w.detail
	case lab.StepSkipped:
		return firstOf(w.detail, "not started")
	}
	if final || r.finishing() != "" {
		return "not started"
	}
	if after := r.after(w.step); after != "" {
		return "after " + after
	}
	return clean(w.step.Reason)
}

func stoppedWhile(detail string) string {
	return strings.TrimSuffix("stopped while: "+detail, " while: ")
}

// after names what a waiting step waits for: kinds that have not all ended, several of a kind as one word.
func (r *run) after(s lab.Step) string {
	type group struct {
		titles []string
		open   bool
	}
	groups := map[string]*group{}
	var kinds []string
	for _, id := range s.Needs {
		need := r.byID[id]
		if need == nil || need.step.Action == lab.ActionNone && need.settled() {
			continue
		}
		kind := need.step.Kind
		if groups[kind] == nil {
			groups[kind] = &group{}
			kinds = append(kinds, kind)
		}
		g := groups[kind]
		g.titles = append(g.titles, need.step.Title())
		g.open = g.open || !need.settled()
	}
	var names []string
	for _, kind := range kinds {
		switch g := groups[kind]; {
		case !g.open:
		case len(g.titles) == 1:
			names = append(names, g.titles[0])
		case strings.HasSuffix(kind, "s"):
			names = append(names, kind)
		default:
			names = append(names, kind+"s")
		}
	}
	return clean(strings.Join(names, ", "))
}

func firstOf(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}

// titleWidth is the width of the title column: 18 as drawn, wider where a title is longer.
func (r *run) titleWidth() int {
	n := 18
	for _, w := range r.rows {
		if w.step.Action != lab.ActionNone {
			n = max(n, width(w.step.Title())+2)
		}
	}
	return min(n, 40)
}

// tell prints the line of a row whose state changed: plain mode, where whole lines are kept because a log is read later and can be searched.
func (r *run) tell(w *row, since time.Duration, now time.Time) {
	if w.state == lab.StepWaiting || w.state == lab.StepStopping || w.step.Action == lab.ActionNone && w.state != lab.StepFailed {
		return
	}
	w.told, w.toldAt = w.detail, now
	p := paint(r.ui.opts.Color)
	symbol, text := SymbolWaiting, r.text(w, false)
	switch w.state {
	case lab.StepDone:
		symbol = SymbolOK
	case lab.StepFailed:
		symbol = SymbolFailed
	case lab.StepStopped:
		symbol = SymbolWarning
	case lab.StepRunning:
		text = firstOf(text, "started")
	}
	line := fmt.Sprintf("%6.1fs %s %s%s", since.Seconds(), p.text(symbol.style(), string(symbol)), pad(clean(w.step.Title()), r.titleWidth()), text)
	if w.state == lab.StepDone || w.state == lab.StepFailed || w.state == lab.StepStopped {
		line += "   " + p.text(dim, Duration(w.elapsed))
	}
	r.println(line)
}

func (r *run) println(line string) {
	if !r.shown {
		r.shown = true
		if r.header != "" {
			line = paint(r.ui.opts.Color).text(bold, r.header) + "\n\n" + line
		}
	}
	r.ui.write(r.ui.opts.Err, strings.TrimRight(line, " ")+"\n")
}

// remind tells, in plain mode, what long-running steps do now.
func (r *run) remind() {
	now := r.ui.opts.Clock()
	if waits := r.finishing(); waits != "" && (waits != r.waits || now.Sub(r.waitAt) >= sayAnyway) {
		r.waits, r.waitAt = waits, now
		p := paint(r.ui.opts.Color)
		r.println(fmt.Sprintf("%6.1fs %s %s%s", now.Sub(r.began).Seconds(), p.text(SymbolWarning.style(), string(SymbolWarning)),
			pad("interrupted", r.titleWidth()), waits))
	}
	for _, w := range r.rows {
		if w.state != lab.StepRunning || w.step.Action == lab.ActionNone {
			continue
		}
		quiet := now.Sub(w.toldAt)
		if quiet >= sayEvery && w.told != w.detail || quiet >= sayAnyway {
			r.tell(w, now.Sub(r.began), now)
		}
	}
}

// tellStopped says, in plain mode, what was under way when the run ended early.
func (r *run) tellStopped() {
	now := r.ui.opts.Clock()
	p := paint(r.ui.opts.Color)
	for _, w := range r.rows {
		if w.underWay() && w.step.Action != lab.ActionNone {
			r.println(fmt.Sprintf("%6.1fs %s %s%s", now.Sub(r.began).Seconds(), p.text(SymbolWarning.style(), string(SymbolWarning)),
				pad(clean(w.step.Title()), r.titleWidth()), r.text(w, true)))
		}
	}
}
