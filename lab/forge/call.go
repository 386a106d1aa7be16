package forge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"homelab/lab"
)

const (
	// How long the forge may be silent during a call, on a slow and busy machine
	defaultPatience = 30 * time.Second
	// Limits of a call to the API, and of one over Git, to a forge that answers others
	apiLimit = 2 * time.Minute
	gitLimit = 15 * time.Minute
)

// call makes a call to the running forge, and cancels it if the forge does not respond or the call takes longer than limit. what names it in errors.
func (g *Gitea) call(ctx context.Context, what string, limit time.Duration, do func(ctx context.Context, s State) error) error {
	s, err := g.running(ctx)
	if err != nil {
		return err
	}
	ctx, done := context.WithTimeoutCause(ctx, limit, g.silent(what, limit))
	defer done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go g.attend(ctx, s, what, cancel)
	if err = do(ctx, s); err == nil {
		return nil
	}
	var silent *silentError
	if errors.As(context.Cause(ctx), &silent) {
		return g.explainSilence(ctx, silent)
	}
	g.explain(ctx, &err)
	return err
}

// attend polls the forge's health until ctx ends, and cancels the call if it does not respond.
func (g *Gitea) attend(ctx context.Context, s State, what string, cancel context.CancelCauseFunc) {
	const looks = 10
	again := time.NewTicker(g.patience / looks)
	defer again.Stop()
	answered := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		if g.health(ctx, s) == nil {
			answered = time.Now()
		}
		if time.Since(answered) >= g.patience {
			cancel(g.silent(what, g.patience))
			return
		}
	}
}

// silentError is the reason why a call was ended.
type silentError struct {
	what  string
	after time.Duration
}

func (e *silentError) Error() string { return fmt.Sprintf("%s: no answer for %s", e.what, e.after) }

func (g *Gitea) silent(what string, after time.Duration) error { return &silentError{what, after} }

// explainSilence returns the error for users, whose cure depends on the container.
func (g *Gitea) explainSilence(ctx context.Context, silent *silentError) error {
	up := cmp.Or(g.commands.Up, "lab up")
	e := &lab.Error{
		Exit: lab.ExitFailed, Code: "forge", Message: fmt.Sprintf("the lab's Git server did not answer for %s", silent.after), Details: []string{"waited for: " + silent.what},
		Cure: "docker restart " + g.name + ", then " + up, Err: silent,
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainLimit)
	defer cancel()
	switch s, container, err := g.inspect(ctx); {
	case err == nil && container.Paused():
		e.Details = append(e.Details, "its container "+g.name+" is paused")
		e.Cure = up + " unpauses it"
	case err == nil && !s.Running:
		e.Details = append(e.Details, "its container "+g.name+" does not run")
		e.Cure = up + " starts it"
	}
	return e
}
