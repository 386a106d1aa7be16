package appset_test

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"homelab/lab/appset"
)

func TestInOrder(t *testing.T) {
	var running, most atomic.Int32
	var got []int
	work := func(i int) int {
		if now := running.Add(1); now > most.Load() {
			most.Store(now)
		}
		defer running.Add(-1)
		if i%3 == 0 {
			runtime.Gosched()
		}
		return i * i
	}
	appset.InOrder(100, work, func(i, square int) {
		if square != i*i {
			t.Errorf("%d: %d", i, square)
		}
		got = append(got, i)
	})
	if len(got) != 100 || !slices.IsSorted(got) {
		t.Errorf("took %v", got)
	}
	if limit := int32(2*runtime.GOMAXPROCS(0) + 1); most.Load() > limit {
		t.Errorf("%d at a time, want at most %d", most.Load(), limit)
	}
	appset.InOrder(0, work, func(int, int) { t.Error("result without work") })
}
