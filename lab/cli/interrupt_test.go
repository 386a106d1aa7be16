//go:build unix

package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// Only an interrupt after the end of the context counts.
func TestSecondInterrupt(t *testing.T) {
	spare := make(chan os.Signal, 1) // so that no signal ends the test
	signal.Notify(spare, syscall.SIGINT)
	defer signal.Stop(spare)
	ctx, cancel := context.WithCancel(t.Context())
	again, done := secondInterrupt(ctx)
	defer done()
	press := func() {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		<-spare
	}
	press()
	select {
	case <-again:
		t.Fatal("closed before the context ended")
	default:
	}
	cancel()
	for received := false; !received; { // it starts listening in the background
		press()
		select {
		case <-again:
			received = true
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("not closed")
		}
	}
}
