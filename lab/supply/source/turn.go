package source

import (
	"container/heap"
	"context"
	"os"
	"sync"
)

// turn serializes work. The waiter with the lowest rank goes next, so that what is needed first is built first.
type turn struct {
	mu      sync.Mutex
	busy    bool
	waiting waiters
}

type waiter struct {
	rank  int
	ready chan struct{}
	at    int // index in the heap; -1 once called
}

func newTurn() *turn { return &turn{} }

func (t *turn) do(ctx context.Context, rank int, work func() error) error {
	if err := t.acquire(ctx, rank); err != nil {
		return err
	}
	defer t.release()
	return work()
}

func (t *turn) acquire(ctx context.Context, rank int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	if !t.busy {
		t.busy = true
		t.mu.Unlock()
		return nil
	}
	w := &waiter{rank: rank, ready: make(chan struct{})}
	heap.Push(&t.waiting, w)
	t.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.at < 0 { // called at the same moment: pass it on
		t.next()
		return ctx.Err()
	}
	heap.Remove(&t.waiting, w.at)
	return ctx.Err()
}

func (t *turn) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next()
}

// next calls the waiter with the lowest rank. t.mu is held.
func (t *turn) next() {
	if t.waiting.Len() == 0 {
		t.busy = false
		return
	}
	w, _ := heap.Pop(&t.waiting).(*waiter)
	close(w.ready)
}

type waiters []*waiter

func (h waiters) Len() int           { return len(h) }
func (h waiters) Less(i, j int) bool { return h[i].rank < h[j].rank }
func (h waiters) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *waiters) Push(x any) {
	w, _ := x.(*waiter)
	w.at = len(*h)
	*h = append(*h, w)
}

func (h *waiters) Pop() any {
	old := *h
	w := old[len(old)-1]
	w.at = -1
	*h = old[:len(old)-1]
	return w
}

func fileSize(file string) (int64, error) {
	info, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
