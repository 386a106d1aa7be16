package scenario

import (
	"context"
	"reflect"
	"sync"
	"time"

	"homelab/lab"
)

// Follow is like Poll until the story ends.
func (c *Call) Follow(s Subject, facets []string, every time.Duration, ask func(context.Context) map[string]any) {
	c.Poll(c.playing.recorder.ctx, s, facets, every, ask)
}

// Poll asks a source again and again, or once, and logs each new answer as the state of a subject, which expectations can be about. It returns a function that
// ends it.
func (c *Call) Poll(ctx context.Context, s Subject, facets []string, every time.Duration, ask func(context.Context) map[string]any) (stop func()) {
	r := c.playing.recorder
	c.subjects = append(c.subjects, s)
	c.playing.about = c.subjects
	r.mu.Lock()
	r.facets[s] = facets
	r.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	asking.Go(func() {
		var last map[string]any
		for ctx.Err() == nil {
			now := ask(ctx)
			if ctx.Err() == nil && !reflect.DeepEqual(now, last) {
				r.see(s, State{Known: true, Object: now}, "")
				last = now
			}
			if every == 0 || lab.Sleep(ctx, every) != nil {
				return
			}
		}
	})
	return func() {
		cancel()
		asking.Wait()
	}
}
