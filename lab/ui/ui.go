// Package ui is the only place that prints: events become a block that redraws on a terminal and plain lines elsewhere; results become tables or
// JSON. stdout is data, stderr is narration.
package ui

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// screenWidth is what every line is drawn for where nothing better is known.
const screenWidth = 80

// Options says where to print and how. The zero value of every field is safe.
type Options struct {
	Out      io.Writer                  // data
	Err      io.Writer                  // narration
	In       io.Reader                  // where a person answers; nil where nobody is there to
	TTY      bool                       // Err is a terminal on which the run view may redraw
	OutTTY   bool                       // Out is a terminal: lines are fitted to its width; in a file they stay whole
	Color    bool                       // colour on Err
	OutColor bool                       // colour on Out
	Width    int                        // columns; 0 means 80
	Size     func() (width, height int) // asked before every frame, so that a resize is seen; nil means Width and no limit in height
	JSON     bool                       // errors are told as JSON on Out, and the texts for a user are left out
	Clock    func() time.Time           // nil means time.Now
}

// UI prints for one run of the program. It is safe for concurrent use.
type UI struct {
	opts Options

	mu    sync.Mutex // guards run and whatever is written
	run   *run
	story *story // a scenario being played
	told  bool   // one was played before
}

// New returns a UI that prints as opts says.
func New(opts Options) *UI {
	if opts.Out == nil {
		opts.Out = io.Discard
	}
	if opts.Err == nil {
		opts.Err = io.Discard
	}
	if opts.Width <= 0 {
		opts.Width = screenWidth
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	return &UI{opts: opts}
}

// Detect fills Options from what stdout and stderr are and from the environment: NO_COLOR (no-color.org), CLICOLOR_FORCE (bixense.com/clicolors),
// TERM=dumb, and CI, whose logs keep every frame and so get plain lines.
func Detect(out, err *os.File, env func(string) string) Options {
	outTerm, errTerm := term.IsTerminal(int(out.Fd())), term.IsTerminal(int(err.Fd()))
	opts := Options{Out: out, Err: err}
	opts.TTY, opts.OutTTY, opts.Color, opts.OutColor = modes(outTerm, errTerm, env)
	if errTerm && term.IsTerminal(int(os.Stdin.Fd())) {
		opts.In = os.Stdin
	}
	screen := err
	if !errTerm {
		screen = out
	}
	opts.Width = screenWidth
	if w, _, sizeErr := term.GetSize(int(screen.Fd())); sizeErr == nil && w > 0 {
		opts.Width = w
	} else if w, convErr := strconv.Atoi(env("COLUMNS")); convErr == nil && w > 0 {
		opts.Width = w
	}
	if opts.TTY {
		opts.Size = func() (int, int) {
			w, h, sizeErr := term.GetSize(int(err.Fd()))
			if sizeErr != nil || w <= 0 {
				return screenWidth, 0
			}
			return w, h
		}
	}
	return opts
}

func modes(outTerm, errTerm bool, env func(string) string) (tty, outTTY, color, outColor bool) {
	dumb := env("TERM") == "dumb"
	ci := env("CI") != "" && env("CI") != "false"
	tty = errTerm && !dumb && !ci
	outTTY = outTerm
	force := env("CLICOLOR_FORCE") != "" && env("CLICOLOR_FORCE") != "0"
	color = force || (errTerm && !dumb)
	outColor = force || (outTerm && !dumb)
	if env("NO_COLOR") != "" {
		color, outColor = false, false
	}
	return tty, outTTY, color, outColor
}

// Aside is a UI on the same screen for what is done on the way to a result: it narrates, and its own results are not shown.
func (u *UI) Aside() *UI {
	opts := u.opts
	opts.Out, opts.JSON = io.Discard, false
	return New(opts)
}

// Print writes one line of data.
func (u *UI) Print(line string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.write(u.opts.Out, line+"\n")
}

// Raw writes data as it is: a diff, a completion script, a file.
func (u *UI) Raw(data string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.write(u.opts.Out, data)
}

// Say writes one line of narration. While a run view is on the screen the line goes above it.
func (u *UI) Say(line string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.run != nil {
		u.run.say(clean(line))
		return
	}
	u.write(u.opts.Err, clean(line)+"\n")
}

// JSON writes v as indented JSON. See contract.go for what v should be.
func (u *UI) JSON(v any) error {
	data, err := encode(v)
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	_, err = u.opts.Out.Write(data)
	return err
}

// WantsJSON reports whether results are for a machine.
func (u *UI) WantsJSON() bool { return u.opts.JSON }

// write ignores the error: a terminal or pipe that is gone must not undo what the run has done. JSON reports it, being the result itself.
func (u *UI) write(w io.Writer, s string) { _, _ = io.WriteString(w, s) }

// outWidth is the width that lines on Out are fitted to; 0 means that they stay whole.
func (u *UI) outWidth() int {
	if !u.opts.OutTTY {
		return 0
	}
	return u.opts.Width
}

// errWidth is the same for Err.
func (u *UI) errWidth() int {
	if !u.opts.TTY {
		return 0
	}
	return u.opts.Width
}

// style is an SGR parameter.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// paint colours text, or does not.
type paint bool

func (p paint) text(st style, s string) string {
	if !p || st == plain || s == "" {
		return s
	}
	return "\x1b[" + string(st) + "m" + s + "\x1b[0m"
}

// Symbol is the sign in front of a line.
type Symbol string

// The signs.
const (
	SymbolOK      Symbol = "✓"
	SymbolFailed  Symbol = "✗"
	SymbolWarning Symbol = "!"
	SymbolWaiting Symbol = "·"
)

func (s Symbol) style() style {
	switch s {
	case SymbolOK:
		return green
	case SymbolFailed:
		return red
	case SymbolWarning:
		return yellow
	case SymbolWaiting:
		return dim
	}
	return cyan
}

// Count says "1 cluster", "2 clusters".
func Count(n int, noun string) string {
	if n != 1 && !strings.HasSuffix(noun, "s") {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
