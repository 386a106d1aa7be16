package scenariotest

import (
	"context"
	"sync"
)

// Gate blocks callers while it is shut, like a frozen container, until it is opened or their context ends.
type Gate struct {
	mu   sync.Mutex
	shut chan struct{} // closed by Open; nil while open
	news chan struct{} // closed by Shut
}

// Shut shuts the gate.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
		if g.news != nil {
			close(g.news)
			g.news = nil
		}
	}
}

// Open opens the gate.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

// through waits until the gate is open.
func (g *Gate) through(ctx context.Context) error {
	for {
		g.mu.Lock()
		shut := g.shut
		g.mu.Unlock()
		if shut == nil {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-shut:
		}
	}
}

func (g *Gate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut != nil
}

// shutting returns a channel that is closed once the gate is shut.
func (g *Gate) shutting() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		now := make(chan struct{})
		close(now)
		return now
	}
	if g.news == nil {
		g.news = make(chan struct{})
	}
	return g.news
}
