package ui

import (
	"fmt"
	"strings"
	"time"
)

// StoryLine is a step of a scenario.
type StoryLine struct {
	Number int
	Title  string
	Symbol Symbol // empty while it is running
	Took   time.Duration
	Since  time.Duration // since the start of the story; shown in plain mode
	Detail []Entry       // expected and actual state
}

// story is the view of a scenario: finished steps, and the current one below.
type story struct {
	ui      *UI
	screen  screen
	current *StoryLine
	began   time.Time // of the current step
	start   time.Time // for the spinner
	prompt  string    // replaces the current step
	stop    chan struct{}
	stopped chan struct{}
}

// storyColumns is the width of a story, with times on the right.
const storyColumns = screenWidth

// StoryBegin shows a scenario that starts. StoryEnd must follow.
func (u *UI) StoryBegin(head, right string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := paint(u.opts.Color)
	head, right = clean(head), clean(right)
	gap := max(3, storyColumns-width(head)-width(right))
	if u.shown {
		u.write(u.opts.Err, "\n")
	}
	u.shown = true
	u.write(u.opts.Err, p.text(bold, head)+spaces(gap)+p.text(dim, right)+"\n\n")
	s := &story{ui: u, screen: screen{out: u.opts.Err}, start: u.opts.Clock(), stop: make(chan struct{}), stopped: make(chan struct{})}
	u.story = s
	go s.tick()
}

// tick turns the spinner, or reports long steps. StoryEnd waits for it.
func (s *story) tick() {
	defer close(s.stopped)
	every, show := frameEvery, s.draw
	if !s.ui.opts.TTY {
		every, show = repeatAfter, s.reportRunning
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			s.ui.mu.Lock()
			show()
			s.ui.mu.Unlock()
		}
	}
}

// reportRunning reports a step that is still running.
func (s *story) reportRunning() {
	if s.current == nil {
		return
	}
	now := s.ui.opts.Clock()
	if took := now.Sub(s.began); took >= repeatAfter/2 {
		l := *s.current
		l.Symbol, l.Took, l.Since = SymbolWaiting, took, now.Sub(s.start)
		s.ui.write(s.ui.opts.Err, s.ended(l))
	}
}

// StoryStep shows a step: running (no symbol), or its result.
func (u *UI) StoryStep(l StoryLine) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.story
	if s == nil {
		return
	}
	l.Title = clean(l.Title)
	s.prompt = ""
	if l.Symbol == "" {
		s.current, s.began = &l, u.opts.Clock()
		if u.opts.TTY {
			s.draw()
		}
		return
	}
	s.current = nil
	text := s.ended(l)
	if !u.opts.TTY {
		u.write(u.opts.Err, text)
		return
	}
	columns, _ := s.size()
	s.screen.draw(nil, columns, paint(u.opts.Color))
	u.write(u.opts.Err, text)
}

// StoryPrompt shows a prompt until the next step.
func (u *UI) StoryPrompt(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s := u.story; s != nil {
		s.prompt = clean(text)
		if u.opts.TTY {
			s.draw()
		} else {
			u.write(u.opts.Err, s.prompt+"\n")
		}
	}
}

// StoryEnd ends the view and prints the verdict as data, unless -o json is given.
func (u *UI) StoryEnd(verdict string) {
	u.mu.Lock()
	s := u.story
	u.story = nil
	u.mu.Unlock()
	if s != nil {
		close(s.stop)
		<-s.stopped
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if s != nil && u.opts.TTY {
		columns, _ := s.size()
		s.screen.draw(nil, columns, paint(u.opts.Color))
		s.screen.leave()
	} else {
		u.write(u.opts.Err, "\n")
	}
	if !u.opts.JSON {
		u.write(u.opts.Out, clean(verdict)+"\n")
	}
}

func (s *story) size() (int, int) {
	if s.ui.opts.Size != nil {
		return s.ui.opts.Size()
	}
	return s.ui.opts.Width, 0
}

// draw shows the current step.
func (s *story) draw() {
	columns, _ := s.size()
	columns = max(columns, 8)
	now := s.ui.opts.Clock()
	var lines []line
	switch {
	case s.prompt != "":
		lines = []line{{{dim, "   " + s.prompt}}}
	case s.current != nil:
		sign := Symbol(spinner[int(now.Sub(s.start)/frameEvery)%len(spinner)])
		left := fmt.Sprintf("%2d ", s.current.Number)
		right := Duration(now.Sub(s.began))
		room := min(columns, storyColumns) - 2
		title := truncate(s.current.Title, max(8, room-width(left)-4-width(right)))
		gap := max(2, room-width(left)-2-width(title)-width(right))
		lines = []line{{{plain, left}, {sign.style(), string(sign)}, {plain, " " + title + spaces(gap)}, {dim, right}}}
	}
	s.screen.draw(lines, columns, paint(s.ui.opts.Color))
}

// ended formats a finished step with its details.
func (s *story) ended(l StoryLine) string {
	p := paint(s.ui.opts.Color)
	left := fmt.Sprintf("%2d ", l.Number)
	if !s.ui.opts.TTY {
		left = fmt.Sprintf("%6.1fs ", l.Since.Seconds()) + left
	}
	took := Duration(l.Took)
	title := l.Title
	columns := s.ui.errWidth()
	if columns > 0 {
		title = truncate(title, max(8, min(columns, storyColumns)-1-width(left)-4-width(took)))
	}
	gap := max(3, storyColumns-1-width(left)-2-width(title)-width(took))
	var b strings.Builder
	b.WriteString(left + p.text(l.Symbol.style(), string(l.Symbol)) + " " + title + spaces(gap) + p.text(dim, took) + "\n")
	indent := spaces(width(left) + 4)
	for _, d := range l.Detail {
		b.WriteString(hang(indent+pad(clean(d.Name), 11), clean(d.Text), columns) + "\n")
	}
	return b.String()
}
