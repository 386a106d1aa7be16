package ui

import (
	"context"
	"errors"
	"slices"
	"strings"

	"homelab/lab"
)

// Error prints an error, as text on Err or as JSON on Out, and returns the exit code. No other code maps errors to
// either. A nil error is ExitDone. After the JSON of a result, an error is text: Out has one document.
func (u *UI) Error(err error) lab.Exit {
	if err == nil {
		return lab.ExitDone
	}
	u.End()
	list := splitErrors(err)
	if u.opts.JSON && !u.wrote {
		// A failed write cannot be reported.
		_ = u.JSON(errorResult(list))
		return list[0].Exit
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	texts := make([]string, len(list))
	for i, e := range list {
		texts[i] = errorText(e, u.errWidth(), paint(u.opts.Color))
	}
	u.write(u.opts.Err, strings.Join(texts, "\n"))
	return list[0].Exit
}

// splitErrors splits joined errors. Those that were only cancelled because of others are left out.
func splitErrors(err error) []lab.Error {
	var all, real []lab.Error
	for _, leaf := range leaves(err) {
		e := complete(leaf)
		all = append(all, e)
		if e.Exit != lab.ExitInterrupted {
			real = append(real, e)
		}
	}
	if len(real) > 0 {
		return real
	}
	return all[:1]
}

func leaves(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var list []error
	for _, e := range joined.Unwrap() {
		list = append(list, leaves(e)...)
	}
	if len(list) == 0 {
		return []error{err}
	}
	return list
}

// complete fills in missing fields of an error; its cause becomes part of the message.
func complete(err error) lab.Error {
	var e lab.Error
	var known *lab.Error
	var problems lab.Problems
	switch {
	case errors.As(err, &known):
		e = *known
		// Wrapping texts give the place.
		if around, ok := strings.CutSuffix(err.Error(), known.Error()); ok {
			e.Message = around + e.Message
		}
		if e.Err != nil && !errors.As(e.Err, &problems) {
			e.Message += ": " + e.Err.Error()
			e.Details = slices.DeleteFunc(slices.Clone(e.Details), func(line string) bool { return line == e.Err.Error() }) // the message has it
		}
		if len(e.Problems) == 0 {
			e.Problems = problems
		}
	case errors.As(err, &problems):
		e = lab.Error{Exit: lab.ExitInvalid, Message: Count(len(problems), "problem"), Problems: problems}
	default:
		e = lab.Error{Message: err.Error()}
	}
	interrupted := errors.Is(err, context.Canceled)
	if known == nil && interrupted {
		e = lab.Error{Message: "interrupted"}
	}
	if interrupted && (e.Exit == lab.ExitDone || e.Exit == lab.ExitFailed) {
		e.Exit = lab.ExitInterrupted
	}
	if e.Exit == lab.ExitDone {
		e.Exit = lab.ExitFailed
	}
	if e.Code == "" || e.Exit == lab.ExitInterrupted {
		e.Code = codeOf(e.Exit)
	}
	return e
}

func codeOf(exit lab.Exit) string {
	switch exit {
	case lab.ExitInvalid:
		return "invalid"
	case lab.ExitTimeout:
		return "timeout"
	case lab.ExitUnmet:
		return "unmet"
	case lab.ExitInterrupted:
		return "interrupted"
	}
	return "failed"
}

func errorResult(list []lab.Error) ErrorResult {
	body := ErrorBody{Code: list[0].Code}
	var messages, cures []string
	for _, e := range list {
		messages = append(messages, e.Message)
		if e.Cure != "" {
			cures = append(cures, e.Cure)
		}
		body.Details = append(body.Details, e.Details...)
		for _, p := range e.Problems {
			body.Problems = append(body.Problems, ErrorProblem{File: p.File, Line: p.Line, Column: p.Column, Rule: p.Code, Message: p.Message, Cure: p.Cure})
		}
	}
	body.Message, body.Cure = strings.Join(messages, "; "), strings.Join(cures, "; ")
	return ErrorResult{Error: body}
}

// errorText formats an error: message, problems or details, cure.
func errorText(e lab.Error, columns int, p paint) string {
	// Helm and Docker put details below the first line.
	message, rest, _ := strings.Cut(strings.TrimSpace(e.Message), "\n")
	const label = "error: "
	var b strings.Builder
	b.WriteString(p.text(red, label) + hang(label, clean(message), columns)[len(label):] + "\n")
	var more []string
	if rest != "" {
		more = strings.Split(rest, "\n")
	}
	more = append(more, e.Details...)
	if len(more)+len(e.Problems) > 0 {
		b.WriteString("\n")
	}
	for _, l := range more {
		b.WriteString(strings.TrimRight(hangLast(spaces(2)+clean(l), columns), " ") + "\n")
	}
	if len(more) > 0 && len(e.Problems) > 0 {
		b.WriteString("\n")
	}
	b.WriteString(problemLines(e.Problems, columns, p))
	if e.Cure != "" {
		if len(more)+len(e.Problems) > 0 {
			b.WriteString("\n")
		}
		b.WriteString(strings.Join(wrap(clean(e.Cure), columns), "\n") + "\n")
	}
	return b.String()
}

func problemLines(problems lab.Problems, columns int, p paint) string {
	at := 0
	for _, problem := range problems {
		at = max(at, width(clean(problem.Position.String())))
	}
	var b strings.Builder
	for _, problem := range problems {
		text := problem.Message
		if problem.Cure != "" {
			text += ": " + problem.Cure
		}
		place := clean(problem.Position.String())
		prefix := spaces(2) + pad(place, at+2)
		if columns > 0 && width(prefix) > columns/2 {
			// Too narrow: put the text below the position.
			b.WriteString(spaces(2) + p.text(bold, place) + "\n" + hang(spaces(4), clean(text), columns) + "\n")
			continue
		}
		line := hang(prefix, clean(text), columns)
		b.WriteString(spaces(2) + p.text(bold, place) + line[2+len(place):] + "\n")
	}
	return b.String()
}
