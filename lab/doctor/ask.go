package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"homelab/lab/docker"
)

// patient limits the time of calls: a stopped daemon accepts connections, and docker's client waits forever.
type patient struct{ Docker }

func (p patient) Info(ctx context.Context) (docker.Info, error) {
	return ask(ctx, "docker info", p.Docker.Info)
}

func (p patient) Endpoint(ctx context.Context) (string, error) {
	return ask(ctx, "docker context", p.Docker.Endpoint)
}

func (p patient) Output(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	return ask(ctx, "docker "+args[0], func(ctx context.Context) ([]byte, error) { return p.Docker.Output(ctx, stdin, args...) })
}

// ask returns the answer to a question, or an error that names it on timeout. It does not wait for the client to exit:
// a killed one may leave a child that holds its output open.
func ask[T any](ctx context.Context, what string, question func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	answers := make(chan answer, 1)
	go func() {
		value, err := question(ctx)
		answers <- answer{value, err}
	}()
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		a.err = ctx.Err()
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && a.err != nil {
		a.err = fmt.Errorf("%s: no answer within %s: %w", what, time.Since(began).Round(time.Second), context.DeadlineExceeded)
	}
	return a.value, a.err
}
