package ui

import (
	"fmt"
	"strings"
	"time"

	"homelab/lab"
)

const (
	frameEvery  = 100 * time.Millisecond // spinner interval
	checkEvery  = time.Second            // plain mode: polling interval
	repeatAfter = 10 * time.Second       // plain mode: interval of updates of a running step, if its detail changed
	remindAfter = time.Minute            // and if not: CI systems kill jobs that are silent for long
)

// row is the state of a step.
type row struct {
	step      lab.Step
	state     lab.StepState
	detail    string
	elapsed   time.Duration // at seen
	seen      time.Time     // time of the last event
	printed   string        // plain mode: the last printed detail
	printedAt time.Time
}

func (w *row) settled() bool {
	switch w.state {
	case lab.StepDone, lab.StepFailed, lab.StepStopped, lab.StepSkipped:
		return true
	}
	return false
}

// active reports whether the step is running, or stopping after an interrupt.
func (w *row) active() bool { return w.state == lab.StepRunning || w.state == lab.StepStopping }

// took returns the running time at now.
func (w *row) took(now time.Time) time.Duration {
	if w.active() {
		return w.elapsed + now.Sub(w.seen)
	}
	return w.elapsed
}

// run is the view of a running plan. Its methods require u.mu.
type run struct {
	ui      *UI
	header  string
	began   time.Time
	rows    []*row
	byID    map[string]*row
	stop    chan struct{}
	stopped chan struct{}
	shown   bool // the header was printed
	screen  screen

	waits  string    // plain mode: the last printed wait after an interrupt
	waitAt time.Time // and its time
}

// Begin shows a plan that starts. Steps without changes are hidden. End must follow.
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
	// The only goroutine of this package turns the spinner. End waits for it.
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

// Event shows an event of a step. It blocks for at most one write and is safe for concurrent use.
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
		return // late progress of a finished step
	}
	now := u.opts.Clock()
	before := w.state
	switch {
	case e.Elapsed > 0:
		w.elapsed = e.Elapsed
	case w.active():
		w.elapsed += now.Sub(w.seen)
	}
	w.state, w.detail, w.seen = e.State, clean(e.Detail), now
	if !u.opts.TTY && before != w.state {
		since := e.Since
		if since <= 0 {
			since = now.Sub(r.began)
		}
		r.printRow(w, since, now)
	}
}

// End leaves the final state on the screen and restores the cursor. It is idempotent.
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
	r.printStopped()
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

func (r *run) printAbove(line string) {
	if r.ui.opts.TTY {
		columns, _ := r.size()
		r.screen.above(line, columns)
		return
	}
	r.ui.write(r.ui.opts.Err, line+"\n")
}

// visible reports whether a row is shown: changes, failures, and on the screen the steps currently waited for.
func (w *row) visible(final bool) bool {
	switch {
	case w.step.Action != lab.ActionNone, w.state == lab.StepFailed:
		return true
	case final:
		return false
	}
	return w.active()
}

// finishing returns what an interrupted run still waits for, or "".
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

// text returns the text next to the title.
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
		// An update is described by its reason, other actions by their result.
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

// after returns what a waiting step waits for; several steps of a kind are summarized in one word.
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

// titleWidth is 18, or more for longer titles.
func (r *run) titleWidth() int {
	n := 18
	for _, w := range r.rows {
		if w.step.Action != lab.ActionNone {
			n = max(n, width(w.step.Title())+2)
		}
	}
	return min(n, 40)
}

// printRow prints a row whose state changed, in plain mode: whole lines, for logs.
func (r *run) printRow(w *row, since time.Duration, now time.Time) {
	if w.state == lab.StepWaiting || w.state == lab.StepStopping || w.step.Action == lab.ActionNone && w.state != lab.StepFailed {
		return
	}
	w.printed, w.printedAt = w.detail, now
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

// remind prints what long-running steps are doing, in plain mode.
func (r *run) remind() {
	now := r.ui.opts.Clock()
	if waits := r.finishing(); waits != "" && (waits != r.waits || now.Sub(r.waitAt) >= remindAfter) {
		r.waits, r.waitAt = waits, now
		p := paint(r.ui.opts.Color)
		r.println(fmt.Sprintf("%6.1fs %s %s%s", now.Sub(r.began).Seconds(), p.text(SymbolWarning.style(), string(SymbolWarning)),
			pad("interrupted", r.titleWidth()), waits))
	}
	for _, w := range r.rows {
		if w.state != lab.StepRunning || w.step.Action == lab.ActionNone {
			continue
		}
		quiet := now.Sub(w.printedAt)
		if quiet >= repeatAfter && w.printed != w.detail || quiet >= remindAfter {
			r.printRow(w, now.Sub(r.began), now)
		}
	}
}

// printStopped prints the steps running when the run was interrupted, in plain mode.
func (r *run) printStopped() {
	now := r.ui.opts.Clock()
	p := paint(r.ui.opts.Color)
	for _, w := range r.rows {
		if w.active() && w.step.Action != lab.ActionNone {
			r.println(fmt.Sprintf("%6.1fs %s %s%s", now.Sub(r.began).Seconds(), p.text(SymbolWarning.style(), string(SymbolWarning)),
				pad(clean(w.step.Title()), r.titleWidth()), r.text(w, true)))
		}
	}
}
