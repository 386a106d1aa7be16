package render

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/sandbox"
)

// Limits of a rendering. Inputs are untrusted, and nothing is measured in time, so that results do not depend on the machine.
const (
	maxFiles  = 10_000
	maxBytes  = 32 << 20  // of files read, unpacked archives included
	maxOutput = 16 << 20  // bytes of manifests
	maxSteps  = 5_000_000 // about a microsecond each
	maxNodes  = 2_000_000 // values of one file

	maxDocuments = 20_000 // of one file
)

// total is the limit of all renderings of an estate, in renderings of maximum size.
const total = 20

const limitCure = "make it smaller: lab limits what it renders"

// limit is the error of an exceeded limit.
type limit = sandbox.Limit

func over(format string, args ...any) error { return sandbox.Over(format, args...) }

// Exceeds reports whether an error is an exceeded limit: files that are too much, not wrong.
func Exceeds(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Limit
}

// Exhausted reports whether an error is that of a budget of several renderings: whatever is rendered after it fails, too.
func Exhausted(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Limit && strings.HasSuffix(e.Message, errAll.Error())
}

// Budget is what renderings may still read and do.
type Budget struct {
	files, bytes, steps int
	all                 *Budget // of several renderings, or nil
}

// NewBudget returns the budget of all renderings of an estate.
func NewBudget() *Budget {
	return &Budget{files: total * maxFiles, bytes: total * maxBytes, steps: total * maxSteps}
}

// one returns the budget of one rendering.
func one(all *Budget) *Budget {
	return &Budget{files: maxFiles, bytes: maxBytes, steps: maxSteps, all: all}
}

var (
	errTooMuch = over("more than %d files or %d MiB, too much to render", maxFiles, maxBytes>>20)
	errEndless = over("more than %d steps to render: is there an endless loop?", maxSteps)
	errAll     = over("the estate has more to render than %d times the limit of one folder", total)
)

// Step spends steps of all renderings; b may be nil.
func (b *Budget) Step(n int) error {
	if b == nil {
		return nil
	}
	return b.step(n)
}

// step spends steps.
func (b *Budget) step(n int) error {
	if b.steps = spend(b.steps, n); b.steps < 0 {
		return errEndless
	}
	if b.all != nil && b.all.step(n) != nil {
		return errAll
	}
	return nil
}

// take spends files and bytes.
func (b *Budget) take(files, bytes int) error {
	if b.files, b.bytes = spend(b.files, files), spend(b.bytes, bytes); b.files < 0 || b.bytes < 0 {
		return errTooMuch
	}
	if b.all != nil && b.all.take(files, bytes) != nil {
		return errAll
	}
	return nil
}

// spend is a subtraction that does not overflow, and stays below 0.
func spend(left, n int) int {
	if left < 0 || n > left {
		return -1
	}
	return left - n
}

// read reads a regular file. Devices and pipes are not opened, which could wait forever.
func (b *Budget) read(fsys fs.FS, name string) ([]byte, error) {
	if err := b.take(1, 0); err != nil {
		return nil, err
	}
	if info, err := fs.Stat(fsys, name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(b.bytes)+1))
	if err != nil {
		return nil, err
	}
	return data, b.take(0, len(data))
}

// values bounds the values of a YAML text before it is parsed: each has an indicator or a line.
func values(data []byte) error {
	n := 0
	for _, c := range data {
		switch c {
		case '\n', ',', '[', '{', ':', '-', '?':
			n++
		}
	}
	if n > maxNodes {
		return over("more than %d values in one file", maxNodes)
	}
	return nil
}

// yaml reads a file of which a library takes YAML values.
func (b *Budget) yaml(fsys fs.FS, name string) ([]byte, error) {
	data, err := b.read(fsys, name)
	if err == nil {
		err = values(data)
	}
	return data, err
}

// failed is the error of a file, with a cure if it is too much.
func failed(file string, err error) error {
	e := &Error{Problem: lab.Problem{Code: finding.CannotRender, Position: lab.Position{File: file}, Message: oneLine(err.Error())}}
	var l *limit
	if errors.As(err, &l) {
		e.Cure, e.Limit = limitCure, true
	}
	return e
}

const (
	maxNested    = 1_000 // variables in the defaults of others: the parser and the evaluator are recursive
	squaresAStep = 64    // characters that a pattern is tried at, in a step
)

// expansion spends what the substitution of variables may make of a text and takes for it. It is more than it makes where a replacement has variables itself.
func (b *Budget) expansion(text string, variables map[string]string) error {
	longest := 0
	for _, v := range variables {
		longest = max(longest, len(v))
	}
	made, steps, open, all := float64(len(text)), 0.0, 0, float64(strings.Count(text, "${"))
	for rest := text; ; {
		i := strings.IndexAny(rest, "$}")
		if i < 0 {
			break
		}
		at := rest[i]
		rest = rest[i+1:]
		if at == '}' {
			open = max(0, open-1)
			continue
		}
		if !strings.HasPrefix(rest, "{") {
			continue
		}
		if open++; open > maxNested {
			return over("more than %d variables that nest in one another", maxNested)
		}
		inner := strings.TrimPrefix(rest[1:], "#")
		name := inner[:len(inner)-len(strings.TrimLeft(inner, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"))]
		size, argument := float64(len(variables[name])), inner[len(name):]
		made += size
		switch {
		case strings.HasPrefix(argument, "/"), strings.HasPrefix(argument, "#"), strings.HasPrefix(argument, "%"):
			operator := argument[0]
			argument, _, _ = strings.Cut(argument, "}")
			length := float64(len(argument))
			if strings.Contains(argument, "$") {
				length += all * float64(longest)
			}
			if operator == '/' {
				made += size * length
			} else { // a pattern is tried at every place, of every part
				steps += size * size * length / squaresAStep
			}
		}
	}
	if made > maxOutput {
		return over("its variables may make more than %d MiB of it", maxOutput>>20)
	}
	if steps > maxSteps {
		return errEndless
	}
	if err := b.step(int(steps)); err != nil {
		return err
	}
	return b.take(0, int(made))
}
