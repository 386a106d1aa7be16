package ui

import (
	"fmt"
	"io"
	"strings"
	"time"

	"homelab/lab"
)

const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	clearLine  = "\x1b[K" // erase to the end of the line
	clearBelow = "\x1b[J" // erase to the end of the screen
)

// maxRight is the right edge of a block on a wide screen: wider lines are hard to follow.
const maxRight = 100

var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// segment is a piece of a line in one style.
type segment struct {
	style style
	text  string
}

type line []segment

func (l line) width() int {
	n := 0
	for _, s := range l {
		n += width(s.text)
	}
	return n
}

// render cuts the line to n columns and colors it.
func (l line) render(n int, p paint) string {
	var b strings.Builder
	for i, s := range l {
		rest := l[i:].width()
		if rest > n {
			// The rest does not fit: cut here if this segment is too long, else in the next.
			if w := width(s.text); w >= n {
				b.WriteString(p.text(s.style, truncate(s.text+"…", n)))
				return b.String()
			}
		}
		b.WriteString(p.text(s.style, s.text))
		n -= width(s.text)
	}
	return strings.TrimRight(b.String(), " ")
}

// screen is a block of lines that is redrawn in place. Each frame is a single write, so terminals never show partial
// ones.
type screen struct {
	out    io.Writer
	widths []int // columns of each line on the screen
	frame  string
	hidden bool
}

// home moves to the first line of the block. Narrower terminals rewrap lines, so they are counted at the current width.
func (s *screen) home(columns int) string {
	rows := 0
	for _, w := range s.widths {
		rows++
		if columns > 0 && w > columns {
			rows += (w - 1) / columns
		}
	}
	if rows == 0 {
		return "\r"
	}
	return fmt.Sprintf("\r\x1b[%dA", rows)
}

// draw replaces the block.
func (s *screen) draw(lines []line, columns int, p paint) {
	if len(lines) == 0 && len(s.widths) == 0 {
		return
	}
	var frame strings.Builder
	widths := make([]int, len(lines))
	for i, l := range lines {
		// Leave one column free: terminals differ in wrapping at the edge.
		frame.WriteString(l.render(columns-1, p) + clearLine + "\n")
		widths[i] = min(l.width(), columns-1)
	}
	var b strings.Builder
	if !s.hidden {
		b.WriteString(hideCursor)
		s.hidden = true
	}
	b.WriteString(s.home(columns) + frame.String() + clearBelow)
	s.frame, s.widths = frame.String(), widths
	_, _ = io.WriteString(s.out, b.String())
}

// above writes a line above the block.
func (s *screen) above(text string, columns int) {
	_, _ = io.WriteString(s.out, s.home(columns)+clearBelow+text+"\n"+s.frame)
}

// leave restores the cursor; the block stays.
func (s *screen) leave() {
	if s.hidden {
		_, _ = io.WriteString(s.out, "\n"+showCursor)
		s.hidden, s.widths, s.frame = false, nil, ""
	}
}

func (r *run) size() (columns, rows int) {
	if r.ui.opts.Size != nil {
		return r.ui.opts.Size()
	}
	return r.ui.opts.Width, 0
}

// draw shows the current state; the final one has no spinner and any height, as it may scroll.
func (r *run) draw(final bool) {
	columns, height := r.size()
	columns = max(columns, 8)
	now := r.ui.opts.Clock()
	if final {
		height = 0
	}
	r.screen.draw(r.lines(now, columns, height, final), columns, paint(r.ui.opts.Color))
	if final {
		r.screen.leave()
	}
}

// lines returns the block for a screen size; height 0 is unlimited.
func (r *run) lines(now time.Time, columns, height int, final bool) []line {
	var rows []*row
	for _, w := range r.rows {
		if w.visible(final) {
			rows = append(rows, w)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	var head []line
	if r.header != "" {
		head = []line{{{bold, r.header}}, {}}
	}
	room := height - 1 // the cursor is below the block
	var foot []line
	if waits := r.finishing(); waits != "" && !final && (height == 0 || room > 2) {
		foot = []line{{}, {{plain, " "}, {SymbolWarning.style(), string(SymbolWarning)}, {plain, " interrupted, " + waits}}}
		room -= len(foot)
	}
	if height > 0 && len(head)+len(rows) > room && room < len(head)+4 {
		head = nil
	}
	if height > 0 && len(head)+len(rows) > room {
		return append(append(head, r.folded(rows, now, columns, max(1, room-len(head)))...), foot...)
	}
	for _, w := range rows {
		head = append(head, r.line(w, now, columns, final))
	}
	return append(head, foot...)
}

// folded fits rows on a small screen: running and failed ones in full, the rest as a number.
func (r *run) folded(rows []*row, now time.Time, columns, room int) []line {
	var busy []line
	done, waiting := 0, 0
	for _, w := range rows {
		switch w.state {
		case lab.StepRunning, lab.StepStopping, lab.StepStopped, lab.StepFailed:
			busy = append(busy, r.line(w, now, columns, false))
		case lab.StepDone:
			done++
		default:
			waiting++
		}
	}
	var lines []line
	if done > 0 && room > 2 {
		lines = append(lines, r.count(SymbolOK, done, "done"))
	}
	var foot []line
	if waiting > 0 && room > 2 {
		foot = append(foot, r.count(SymbolWaiting, waiting, "waiting"))
	}
	if free := room - len(lines) - len(foot); len(busy) > free {
		hidden := len(busy) - max(0, free-1)
		busy = append(busy[:max(0, free-1)], r.count(SymbolWaiting, hidden, "more under way"))
	}
	return append(append(lines, busy...), foot...)
}

func (r *run) count(symbol Symbol, n int, what string) line {
	return line{{plain, " "}, {symbol.style(), string(symbol)}, {plain, fmt.Sprintf(" %d %s", n, what)}}
}

// line returns a row: symbol, title, text and time.
func (r *run) line(w *row, now time.Time, columns int, final bool) line {
	symbol, took := SymbolWaiting, ""
	switch w.state {
	case lab.StepRunning, lab.StepStopping:
		symbol = Symbol(spinner[int(now.Sub(r.began)/frameEvery)%len(spinner)])
		if final {
			symbol = SymbolWarning
		}
		took = Duration(w.took(now))
	case lab.StepDone:
		symbol, took = SymbolOK, Duration(w.elapsed)
	case lab.StepFailed:
		symbol, took = SymbolFailed, Duration(w.elapsed)
	case lab.StepStopped:
		symbol, took = SymbolWarning, Duration(w.elapsed)
	}
	right := min(columns, maxRight) - 3
	title := pad(clean(w.step.Title()), r.titleWidth())
	room := right - 3 - width(title)
	if took != "" {
		room -= 2 + width(took)
	}
	text := r.text(w, final)
	if room >= 8 {
		text = truncate(text, room)
	}
	l := line{{plain, " "}, {symbol.style(), string(symbol)}, {plain, " " + title}}
	textStyle := plain
	if symbol == SymbolWaiting {
		textStyle = dim
	}
	l = append(l, segment{textStyle, text})
	if took != "" && room >= 8 {
		l = append(l, segment{plain, spaces(right - l.width() - width(took))}, segment{dim, took})
	}
	return l
}
