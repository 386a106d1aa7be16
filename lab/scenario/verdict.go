package scenario

import (
	"context"
	"errors"
	"fmt"
)

// firstOf returns the first of joined errors, the likely cause of the others.
func firstOf(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok && len(joined.Unwrap()) > 0 {
		return firstOf(joined.Unwrap()[0])
	}
	return err
}

func (p *playing) verdict(err error) Verdict {
	var unmet *Unmet
	switch {
	case errors.As(err, &unmet):
		return Failed
	case errors.Is(err, errTimeUp), errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	case errors.Is(err, context.Canceled):
		return Interrupted
	}
	return Broken
}

// explain adds the expected and last seen state if the story timed out before the expectation did.
func (p *playing) explain(err error, out Outcome) error {
	if errors.Is(err, errTimeUp) {
		return fmt.Errorf("%w (%s): expected %s, last seen %s", errTimeUp, Span(p.scenario.Timeout), out.Expected, out.Seen)
	}
	return err
}
