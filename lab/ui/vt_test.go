package ui

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// vt is a terminal of a fixed size that supports what the run view writes. Anything else, and wrapping lines, fail the
// test.
type vt struct {
	t             *testing.T
	mu            sync.Mutex
	width, height int
	cells         [][]rune // the screen
	scrolled      []string // scrolled-out lines
	row, col      int
	hidden        bool
	writes        int
}

func newVT(t *testing.T, width, height int) *vt {
	v := &vt{t: t, width: width, height: height}
	for range height {
		v.cells = append(v.cells, blank(width))
	}
	return v
}

func blank(n int) []rune { return []rune(strings.Repeat(" ", n)) }

func (v *vt) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.writes++
	s := string(p)
	for len(s) > 0 {
		if strings.HasPrefix(s, "\x1b[") {
			end := strings.IndexFunc(s[2:], func(r rune) bool { return r >= '@' && r <= '~' })
			if end < 0 {
				v.t.Fatalf("a frame ends within a sequence: %q", s)
			}
			v.sequence(s[2:2+end], s[2+end])
			s = s[3+end:]
			continue
		}
		r, size := utf8.DecodeRuneInString(s)
		v.put(r)
		s = s[size:]
	}
	return len(p), nil
}

func (v *vt) put(r rune) {
	switch {
	case r == '\n':
		v.col = 0
		v.row++
		if v.row == v.height {
			v.scrolled = append(v.scrolled, strings.TrimRight(string(v.cells[0]), " "))
			v.cells = append(v.cells[1:], blank(v.width))
			v.row--
		}
	case r == '\r':
		v.col = 0
	case r < ' ' || r == 0x7f:
		v.t.Errorf("control character %q reached the terminal", r)
	default:
		n := runeWidth(r)
		if v.col+n > v.width {
			v.t.Errorf("line %d wraps at %d columns: %s", v.row, v.width, string(v.cells[v.row]))
			v.put('\n')
		}
		v.cells[v.row][v.col] = r
		if n == 2 {
			v.cells[v.row][v.col+1] = ' '
		}
		v.col += n
	}
}

func (v *vt) sequence(args string, final byte) {
	switch final {
	case 'A':
		n, err := strconv.Atoi(args)
		if err != nil || n > v.row {
			v.t.Errorf("cursor up %q from line %d", args, v.row)
		}
		v.row = max(0, v.row-n)
	case 'K':
		copy(v.cells[v.row][v.col:], blank(v.width-v.col))
	case 'J':
		copy(v.cells[v.row][v.col:], blank(v.width-v.col))
		for r := v.row + 1; r < v.height; r++ {
			v.cells[r] = blank(v.width)
		}
	case 'm':
	case 'h', 'l':
		if args != "?25" {
			v.t.Errorf("unknown mode %q", args)
		}
		v.hidden = final == 'l'
	default:
		v.t.Errorf("unknown sequence %q%c", args, final)
	}
}

// resize narrows the terminal; too long lines are broken, as most terminals do.
func (v *vt) resize(width int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var lines [][]rune
	cursor := 0
	for i, l := range v.cells {
		if i == v.row {
			cursor = len(lines)
		}
		text := []rune(strings.TrimRight(string(l), " "))
		for len(text) > width {
			lines = append(lines, text[:width])
			text = text[width:]
		}
		lines = append(lines, append(text, blank(width-len(text))...))
	}
	for len(lines) > v.height && cursor < len(lines)-1 {
		lines = lines[:len(lines)-1] // blank lines below the cursor
	}
	for len(lines) > v.height {
		v.scrolled = append(v.scrolled, strings.TrimRight(string(lines[0]), " "))
		lines = lines[1:]
		cursor--
	}
	v.cells, v.width, v.row = lines, width, cursor
}

// screen returns the visible text, without blank lines at the end.
func (v *vt) screen() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var b strings.Builder
	for _, l := range v.cells {
		fmt.Fprintln(&b, strings.TrimRight(string(l), " "))
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// all returns the text including scrolled-out lines.
func (v *vt) all() string {
	return strings.Join(append(v.scrolled, v.screen()), "\n")
}
