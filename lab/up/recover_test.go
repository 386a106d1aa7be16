package up

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/snapshot"
)

// thawing is an engine whose application is unhealthy for a while.
type thawing struct {
	Engine
	from, to time.Time
}

func (t thawing) Snapshot(context.Context) (engine.Snapshot, error) {
	a := lab.Application{Name: "dev-metrics-server", Sync: "Synced", Health: "Healthy"}
	if now := time.Now(); !now.Before(t.from) && now.Before(t.to) {
		a.Health = "Progressing"
	}
	return engine.Snapshot{Applications: []lab.Application{a, {Name: "never", Sync: "OutOfSync"}}}, nil
}

func thawed(e Engine) Saved {
	return Saved{Snapshot: snapshot.Snapshot{Name: "ready"}, engine: e, converged: []string{"dev-metrics-server"}}
}

func TestRecovered(t *testing.T) {
	for name, test := range map[string]struct {
		from, to, want time.Duration // since the thaw
		exit           lab.Exit
	}{
		"healthy throughout":    {0, 0, 3 * time.Second, 0},
		"unhealthy immediately": {0, 10 * time.Second, 13 * time.Second, 0},
		"unhealthy later":       {2 * time.Second, 8 * time.Second, 11 * time.Second, 0},
		"unhealthy forever":     {time.Second, time.Hour, 2 * time.Minute, lab.ExitTimeout},
		"unhealthy afterwards":  {time.Minute, time.Hour, 3 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				s := thawed(thawing{from: began.Add(test.from), to: began.Add(test.to)})
				err := s.Recovered(t.Context(), func(string) {})
				var e *lab.Error
				if got := time.Since(began); got != test.want || errors.As(err, &e) != (test.exit != 0) || e != nil && (e.Exit != test.exit || !strings.Contains(e.Details[0], "dev-metrics-server Synced, Progressing")) {
					t.Errorf("after %s: %v", got, err)
				}
			})
		})
	}
}

// Neither a failed observation nor a missing application counts as recovery.
func TestUnconverged(t *testing.T) {
	for want, e := range map[string]Engine{"the engine: no API": mute{err: errors.New("no API")}, "dev-metrics-server absent": mute{}, "": thawing{}} {
		if got := thawed(e).unconverged(t.Context()); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// mute is an engine without applications, or with an error.
type mute struct {
	Engine
	err error
}

func (m mute) Snapshot(context.Context) (engine.Snapshot, error) { return engine.Snapshot{}, m.err }

func TestRecoveredInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := thawed(thawing{to: time.Now().Add(time.Hour)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Recovered(ctx, func(string) {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
