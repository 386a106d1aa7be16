package up

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"homelab/lab"
)

const (
	recoverEvery = 500 * time.Millisecond
	recoverFor   = 3 * time.Second // longer than an engine takes to notice a failed probe
	recoverLimit = 2 * time.Minute
	recoverLook  = 10 * time.Second
)

// Converged returns the names of the applications that have converged, without needing an estate; none if the engine does not answer.
func (l *Lab) Converged(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, recoverLook)
	defer cancel()
	states, err := l.Clusters.Observe(ctx)
	if err != nil {
		return nil
	}
	e, err := l.standingEngine(ctx, byName(states))
	if err != nil || e == nil {
		return nil
	}
	standing, err := e.Standing(ctx)
	if err != nil {
		return nil
	}
	var names []string
	for _, a := range standing.Applications {
		if a.Converged() {
			names = append(names, a.Name)
		}
	}
	return names
}

// Recovered waits until these applications have been converged for three seconds on end, and two minutes at most. Probes that were under way while the
// containers were paused fail afterwards: metrics-server's APIService, say, is unavailable for a moment.
func (l *Lab) Recovered(ctx context.Context, names []string, p lab.Progress) error {
	if len(names) == 0 {
		return nil
	}
	began := time.Now()
	var since time.Time // all have been converged; zero while some are not
	for {
		now := l.Converged(ctx)
		left := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(now, n) })
		switch {
		case len(left) > 0 && time.Since(began) >= recoverLimit:
			return &lab.Error{
				Exit: lab.ExitTimeout, Code: "timeout", Message: fmt.Sprintf("not converged again within %s: %s", recoverLimit, strings.Join(left, ", ")),
				Cure: "lab up repairs it",
			}
		case len(left) > 0:
			since = time.Time{}
			p("waiting for " + strings.Join(left, ", "))
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= recoverFor:
			return nil
		}
		if err := lab.Sleep(ctx, recoverEvery); err != nil {
			return err
		}
	}
}
