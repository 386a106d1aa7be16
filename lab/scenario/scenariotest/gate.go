package scenariotest

import (
	"context"
	"sync"
)

// Gate is a way that can be shut, as a frozen container shuts it: what goes through then waits until it is opened, or until its context ends.
type Gate struct {
	mu   sync.Mutex
	shut chan struct{} // closed when the gate is opened; nil while it is open
	news chan struct{} // closed when the gate is shut
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

// Open opens it.
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

// isShut reports whether nothing goes through.
func (g *Gate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut != nil
}

// shutting is closed when the gate is shut, or is so already.
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
