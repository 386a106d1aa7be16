package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// secondInterrupt returns a channel that is closed by the first interrupt after ctx is done. done releases it.
func secondInterrupt(ctx context.Context) (again <-chan struct{}, done func()) {
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
