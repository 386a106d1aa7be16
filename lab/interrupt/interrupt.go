// Package interrupt hears the Ctrl-C after the first, which ended a context, and outlives readers that go away.
package interrupt

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Second is closed by the interrupt that comes after the one that ended ctx: what is being put back is given up then. done ends the listening.
func Second(ctx context.Context) (again <-chan struct{}, done func()) {
	second, over := make(chan struct{}), make(chan struct{})
	detach := context.AfterFunc(ctx, func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(signals)
		select {
		case <-signals:
			close(second)
		case <-over:
		}
	})
	return second, func() {
		detach()
		close(over)
	}
}

// Outlive keeps the program going when nobody reads what it prints any more, as in lab up |& head, until done is called: what it changes is not left half done.
func Outlive() (done func()) {
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGPIPE)
	return func() { signal.Stop(unread) }
}
