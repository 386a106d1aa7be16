package interrupt

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// The interrupt after the one that ended the context is heard, and none before that.
func TestSecond(t *testing.T) {
	spare := make(chan os.Signal, 1) // so that no signal ends the test
	signal.Notify(spare, syscall.SIGINT)
	defer signal.Stop(spare)
	ctx, cancel := context.WithCancel(t.Context())
	again, done := Second(ctx)
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
		t.Fatal("the first was heard")
	default:
	}
	cancel()
	for heard := false; !heard; { // it begins to listen on its own
		press()
		select {
		case <-again:
			heard = true
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("not heard")
		}
	}
}
