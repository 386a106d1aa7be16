package up

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/snapshot"
)

const (
	recoverEvery = 500 * time.Millisecond
	recoverFor   = 3 * time.Second // longer than an engine takes to notice a failed probe
	recoverLimit = 2 * time.Minute
	recoverLook  = 10 * time.Second
)

// Saved is a snapshot of a lab that runs on.
type Saved struct {
	snapshot.Snapshot

	engine    Engine   // nil if it did not answer
	converged []string // applications, before the lab was paused
}

// running observes a lab before it is paused. It needs no estate.
func (l *Lab) running(ctx context.Context, states []lab.ClusterState) Saved {
	ctx, cancel := context.WithTimeout(ctx, recoverLook)
	defer cancel()
	e, err := l.standingEngine(ctx, byName(states))
	if err != nil || e == nil {
		return Saved{}
	}
	standing, err := e.Snapshot(ctx)
	if err != nil {
		return Saved{}
	}
	s := Saved{engine: e}
	for _, a := range standing.Applications {
		if a.Converged() {
			s.converged = append(s.converged, a.Name)
		}
	}
	return s
}

// Recovered waits, for two minutes at most, until the applications that had converged have been converged again for three consecutive seconds. Probes that
// were under way while the containers were paused fail afterwards; metrics-server's APIService, for example, becomes unavailable for a moment.
func (s Saved) Recovered(ctx context.Context, p lab.Progress) error {
	if len(s.converged) == 0 {
		return nil
	}
	began := time.Now()
	var since time.Time // all have been converged; zero if any is not
	for {
		left := s.unconverged(ctx)
		switch {
		case left != "" && time.Since(began) >= recoverLimit:
			return &lab.Error{
				Exit: lab.ExitTimeout, Code: "timeout", Message: fmt.Sprintf("snapshot %s is saved, but the lab has not converged again within %s", s.Name, recoverLimit),
				Details: []string{"last seen: " + left}, Cure: "lab up repairs it",
			}
		case left != "":
			since = time.Time{}
			p("waiting for " + left)
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

// unconverged describes the applications that had converged and no longer are. It is empty if there are none.
func (s Saved) unconverged(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, recoverLook)
	defer cancel()
	standing, err := s.engine.Snapshot(ctx)
	if err != nil {
		return "the engine: " + err.Error()
	}
	var left []string
	for _, name := range s.converged {
		i := slices.IndexFunc(standing.Applications, func(a lab.Application) bool { return a.Name == name })
		if i < 0 {
			left = append(left, name+" absent")
		} else if a := standing.Applications[i]; !a.Converged() {
			left = append(left, name+" "+a.Sync+", "+a.Health)
		}
	}
	return strings.Join(left, "; ")
}
