// Package sandbox bounds the execution of templates of strangers: what they write, what their functions make, and how many steps they take. text/template and the
// functions of sprig have no limits and cannot be interrupted.
package sandbox

import (
	"fmt"
	"io"
	"text/template"
)

// MaxOutput limits the bytes that templates write.
const MaxOutput = 16 << 20

// MaxNested is the maximum nesting of templates. Helm applies it per name.
const MaxNested = 1000

// Limit is the error of an exceeded limit.
type Limit struct{ Message string }

func (l *Limit) Error() string { return l.Message }

// Over returns a Limit.
func Over(format string, args ...any) error { return &Limit{fmt.Sprintf(format, args...)} }

// Errors of templates.
var (
	ErrHuge   = Over("templates write more than %d MiB", MaxOutput>>20)
	ErrNested = Over("templates nest more than %d deep", MaxNested)
)

// Sandbox counts what templates do.
type Sandbox struct {
	Step    func(n int) error // spends steps
	Longest int               // bytes of the longest text

	depth    int            // current nesting of templates
	written  int            // bytes of all output, included templates too
	made     int            // bytes and values of all function results
	programs map[string]int // sizes of regular expressions
}

// New returns a sandbox.
func New(step func(n int) error) *Sandbox { return &Sandbox{Step: step, programs: map[string]int{}} }

// Reset forgets what was counted.
func (s *Sandbox) Reset() {
	s.depth, s.written, s.made = 0, 0, 0
	clear(s.programs)
}

// Functions returns functions with limits, and those that guarded templates call.
func (s *Sandbox) Functions(funcs template.FuncMap) template.FuncMap {
	all := template.FuncMap{}
	for _, list := range []template.FuncMap{builtin, funcs} {
		for name, f := range list {
			all[name] = s.bounded(name, f)
		}
	}
	all["__step"] = func(n int) (string, error) { return "", s.evaluate(n) }
	all["__enter"] = func(n int) (string, error) {
		if s.depth++; s.depth > MaxNested {
			return "", ErrNested
		}
		return "", s.evaluate(1 + n)
	}
	all["__leave"] = func() string { s.depth--; return "" }
	return all
}

// Writer returns a writer that fails if templates write too much.
func (s *Sandbox) Writer(to io.Writer) io.Writer { return writer{to, s} }

type writer struct {
	to io.Writer
	s  *Sandbox
}

func (w writer) Write(p []byte) (int, error) {
	if w.s.written += len(p); w.s.written > 4*MaxOutput { // included text counts once per level
		return 0, ErrHuge
	}
	if err := w.s.Step(1 + len(p)/perStep); err != nil {
		return 0, err
	}
	return w.to.Write(p)
}

// perStep is how many bytes are handled in a step.
const perStep = 256
