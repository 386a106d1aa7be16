package lab

import (
	"context"
	"time"
)

// Sleep pauses for d, or until ctx is done, in which case it returns the context's cause.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
