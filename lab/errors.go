package lab

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Exit is the exit code of the program.
type Exit int

// The exit codes, also listed by --help under EXIT STATUS.
const (
	ExitDone        Exit = 0   // done
	ExitFailed      Exit = 1   // failed
	ExitInvalid     Exit = 2   // usage, or an invalid estate; nothing was changed
	ExitTimeout     Exit = 3   // not converged in time
	ExitUnmet       Exit = 4   // an assertion or a drift check failed
	ExitInterrupted Exit = 130 // interrupted
)

// CodeNotUpToDate is the code of an error about a lab that lab up would change.
const CodeNotUpToDate = "not_up_to_date"

// Position is a position in a file. Line and Column count from 1; 0 means unknown.
type Position struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

func (p Position) String() string {
	switch {
	case p.Line > 0 && p.Column > 0:
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	case p.Line > 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return p.File
}

// Problem is a fault in a user's file: its position, a description and a cure.
type Problem struct {
	Position
	Code    string `json:"-"` // of a rule: see lab/finding
	Message string `json:"message"`
	Cure    string `json:"cure,omitempty"`
}

func (p Problem) String() string {
	s := p.Position.String() + ": " + p.Message
	if p.Cure != "" {
		s += ": " + p.Cure
	}
	return s
}

// Problems are all faults found in one pass.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Sort orders problems by file, line and column.
func (ps Problems) Sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// Err returns ps as an error, or nil if there are no problems.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// Error is a failure reported to a user, with a cure and the exit code.
type Error struct {
	Exit     Exit     // exit code of the program
	Code     string   // stable identifier: invalid_estate, timeout, diverged, no_engine, ...
	Message  string   // one line, lower case, no full stop
	Cure     string   // what to do next; may be empty
	Details  []string // further lines for a user, each at most 80 columns
	Problems Problems // faults in files; may be empty
	Err      error    // cause; may be nil
}

func (e *Error) Error() string {
	s := e.Message
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Cure != "" {
		s += "; " + e.Cure
	}
	return s
}

func (e *Error) Unwrap() error {
	if e.Err == nil && len(e.Problems) > 0 {
		return e.Problems
	}
	return e.Err
}
