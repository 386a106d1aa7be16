package up

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/state"
)

// answering is a Clusters whose hub answers.
type answering struct{ Clusters }

func (answering) Observe(context.Context, ...string) ([]lab.ClusterState, error) {
	return []lab.ClusterState{{Name: "dev", Exists: true, Running: true, Fault: "its API does not answer", Made: lab.MadeWhole}, {Name: "hub", Exists: true, Running: true, Answers: true, Made: lab.MadeWhole}}, nil
}

// thawing is an engine whose application is unhealthy from one moment to another.
type thawing struct {
	Engine
	from, to time.Time
}

func (thawing) Observe(context.Context) (engine.State, error) { return engine.State{Revision: 1}, nil }

func (t thawing) Standing(context.Context) (engine.Standing, error) {
	a := lab.Application{Name: "dev-metrics-server", Sync: "Synced", Health: "Healthy"}
	if now := time.Now(); !now.Before(t.from) && now.Before(t.to) {
		a.Health = "Progressing"
	}
	return engine.Standing{Applications: []lab.Application{a, {Name: "never", Sync: "OutOfSync"}}}, nil
}

// thawed returns a lab without an estate, as lab snapshot has it.
func thawed(t *testing.T, e Engine) *Lab {
	t.Helper()
	return &Lab{Dir: &state.Dir{Lab: "demo", Path: t.TempDir()}, Clusters: answering{}, Connect: func(string) (Engine, error) { return e, nil }}
}

func TestRecovered(t *testing.T) {
	for name, test := range map[string]struct {
		from, to, want time.Duration // since the thaw
		exit           lab.Exit
	}{
		"well all along":       {0, 0, 3 * time.Second, 0},
		"unhealthy at once":    {0, 10 * time.Second, 13 * time.Second, 0},
		"unhealthy later":      {2 * time.Second, 8 * time.Second, 11 * time.Second, 0},
		"unhealthy for good":   {time.Second, time.Hour, 2 * time.Minute, lab.ExitTimeout},
		"unhealthy afterwards": {time.Minute, time.Hour, 3 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				l := thawed(t, thawing{from: began.Add(test.from), to: began.Add(test.to)})
				err := l.Recovered(t.Context(), []string{"dev-metrics-server"}, func(string) {})
				var e *lab.Error
				if got := time.Since(began); got != test.want || errors.As(err, &e) != (test.exit != 0) || e != nil && e.Exit != test.exit {
					t.Errorf("after %s: %v", got, err)
				}
			})
		})
	}
}

func TestRecoveredNothing(t *testing.T) {
	l := thawed(t, thawing{})
	l.Connect = func(string) (Engine, error) { return nil, errors.New("no hub") }
	if got := l.Converged(t.Context()); got != nil {
		t.Errorf("%q", got)
	}
	if err := l.Recovered(t.Context(), nil, func(string) {}); err != nil {
		t.Error(err)
	}
}

func TestRecoveredInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := thawed(t, thawing{to: time.Now().Add(time.Hour)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Recovered(ctx, []string{"dev-metrics-server"}, func(string) {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
