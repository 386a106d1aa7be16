// Package interrupt hears the Ctrl-C after the first, which ended a context.
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
