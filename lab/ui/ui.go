// Package ui does all printing: events become a block that is redrawn on a terminal, or plain lines; results become
// tables or JSON. stdout is data, stderr is narration.
package ui

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// screenWidth is the default width.
const screenWidth = 80

// Options configure a UI. The zero value of every field is safe.
type Options struct {
	Out      io.Writer                  // data
	Err      io.Writer                  // narration
	In       io.Reader                  // answers of a user; nil if not interactive
	TTY      bool                       // Err is a terminal that can be redrawn
	OutTTY   bool                       // Out is a terminal: lines are fitted to its width
	Color    bool                       // color on Err
	OutColor bool                       // color on Out
	Width    int                        // columns; 0 means 80
	Size     func() (width, height int) // called before every frame, to follow resizes; nil means Width and unlimited height
	JSON     bool                       // errors are JSON on Out, and texts for users are left out
	Clock    func() time.Time           // nil means time.Now
}

// UI prints for one run of the program. It is safe for concurrent use.
type UI struct {
	opts Options

	mu    sync.Mutex // guards run and all output
	run   *run
	story *story // scenario being played
	shown bool   // a story was shown before
	wrote bool   // the JSON document, of which there is one
}

// New returns a UI.
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

// Detect returns Options for stdout, stderr and the environment: NO_COLOR (no-color.org), CLICOLOR_FORCE
// (bixense.com/clicolors), TERM=dumb, and CI, whose logs keep every frame and therefore get plain lines.
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

// Aside returns a UI on the same screen for intermediate work: it narrates, and does not print results.
func (u *UI) Aside() *UI {
	opts := u.opts
	opts.Out, opts.JSON = io.Discard, false
	return New(opts)
}

// Print writes a line of data.
func (u *UI) Print(line string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.write(u.opts.Out, line+"\n")
}

// Raw writes data as is: a diff, a completion script, a file.
func (u *UI) Raw(data string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.write(u.opts.Out, data)
}

// Println writes a line of narration, above a run view if there is one.
func (u *UI) Println(line string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.run != nil {
		u.run.printAbove(clean(line))
		return
	}
	u.write(u.opts.Err, clean(line)+"\n")
}

// JSON writes v as indented JSON. See contract*.go for the types.
func (u *UI) JSON(v any) error {
	data, err := encode(v)
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.wrote {
		return errors.New("a second JSON document")
	}
	u.wrote = true
	_, err = u.opts.Out.Write(data)
	return err
}

// WantsJSON reports whether -o json is given.
func (u *UI) WantsJSON() bool { return u.opts.JSON }

// write ignores errors: a closed terminal or pipe must not undo the run. JSON reports them, being the result.
func (u *UI) write(w io.Writer, s string) { _, _ = io.WriteString(w, s) }

// outWidth returns the width for lines on Out; 0 does not fit them.
func (u *UI) outWidth() int {
	if !u.opts.OutTTY {
		return 0
	}
	return u.opts.Width
}

// errWidth returns the width for lines on Err.
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

// paint enables color.
type paint bool

func (p paint) text(st style, s string) string {
	if !p || st == plain || s == "" {
		return s
	}
	return "\x1b[" + string(st) + "m" + s + "\x1b[0m"
}

// Symbol is the sign at the beginning of a line.
type Symbol string

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

// Count returns "1 cluster", "2 clusters".
func Count(n int, noun string) string {
	if n != 1 && !strings.HasSuffix(noun, "s") {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
