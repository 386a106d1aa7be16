package source

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

func TestTurnOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := newTurn()
		var order []int
		release := make(chan struct{})
		go func() { _ = turn.do(t.Context(), 99, func() error { <-release; return nil }) }()
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		var err error
		go func() { err = turn.do(gone, 0, func() error { order = append(order, 0); return nil }) }()
		for _, rank := range []int{3, 1, 2} {
			go func() { _ = turn.do(t.Context(), rank, func() error { order = append(order, rank); return nil }) }()
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled waiter got %v", err)
		}
		close(release)
		synctest.Wait()
		if !slices.Equal(order, []int{1, 2, 3}) {
			t.Errorf("order %v", order)
		}
		if turn.busy {
			t.Error("the turn was not released")
		}
	})
}

func TestTurnPassesOnFailure(t *testing.T) {
	turn := newTurn()
	boom := errors.New("boom")
	if err := turn.do(t.Context(), 1, func() error { return boom }); !errors.Is(err, boom) {
		t.Error(err)
	}
	if err := turn.do(t.Context(), 1, func() error { return nil }); err != nil {
		t.Error(err)
	}
}
