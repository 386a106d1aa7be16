// Package interrupt handles a second Ctrl-C and closed output.
package interrupt

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Second returns a channel that is closed by the first interrupt after ctx is done. done releases it.
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

// Outlive ignores SIGPIPE until done is called, so that a change completes even if its reader is gone, as in lab up |& head.
func Outlive() (done func()) {
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGPIPE)
	return func() { signal.Stop(unread) }
}
