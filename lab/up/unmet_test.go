package up_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/plan"
	"homelab/lab/state"
	"homelab/lab/up"
)

// Each step that needs the engine fails without a connection to it.
func TestStepWithoutConnection(t *testing.T) {
	s := newStage(t)
	l := (&process{stage: s}).lab()
	seen, err := l.Observe(t.Context(), up.Options{})
	must(t, err)
	for _, st := range l.Plan(t.Context(), up.Options{}, seen) {
		if !slices.Contains([]string{plan.KindEngine, plan.KindBridge, plan.KindAddons}, st.Kind) {
			continue
		}
		l := (&process{stage: s}).lab()
		l.Connect = func(string) (up.Engine, error) { return nil, errFull }
		st.Needs = nil
		if _, err := l.Apply(t.Context(), up.Options{}, seen, []lab.Step{st}, nil); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", st.ID, err)
		}
	}
}

func TestPruned(t *testing.T) {
	s := newStage(t)
	departed(t, s)
	was := s.clusters.Whole()
	if err := pruningUp(t.Context(), failing(s, "clusters.rest-config dev")); !errors.Is(err, errFull) {
		t.Errorf("cluster unreachable: %v", err)
	}
	s.requireKept(t, was, "while unreachable")
	changed, err := (&process{stage: s}).up(t.Context(), up.Options{Prune: true})
	must(t, err)
	for _, want := range []string{"cluster/dev: left the estate", "bridge/dev: left the estate", "bridge/dev: cluster dev is no longer registered", "addons: follow the estate"} {
		if !slices.Contains(changed, want) {
			t.Errorf("%q does not contain %q", changed, want)
		}
	}
	if s.clusters.Identity("dev") != "" {
		t.Error("cluster dev exists")
	}
}

// A leaving cluster is contacted if ready, and unregistered in any case.
func TestDeparture(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(s *stage)
		reach bool
	}{
		"ready":   {func(*stage) {}, true},
		"stopped": {func(s *stage) { s.clusters.Stop("dev") }, false},
		"lost":    {func(s *stage) { s.clusters.Lose("dev") }, false},
	} {
		s := newStage(t)
		departed(t, s)
		c.spoil(s)
		got, _ := s.follow(t, (&process{stage: s}).lab(), up.Options{Prune: true})
		if d := got.departures; len(d) != 1 || d[0].Cluster != "dev" || (d[0].Spoke != nil) != c.reach || d[0].LivesOn {
			t.Errorf("%s: %+v", name, d)
		}
	}
	s := attachedLab(t)
	s.leave("edge")
	got, _ := s.follow(t, (&process{stage: s}).lab(), up.Options{Prune: true})
	if d := got.departures; len(d) != 1 || d[0].Cluster != "edge" || d[0].Spoke == nil || !d[0].LivesOn {
		t.Errorf("attached: %+v", d)
	}
}

// Unknown images and charts do not cause changes.
func TestSupplyFails(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	for _, call := range []string{"supply.image gitea", "supply.chart argo-cd 3.2.11"} {
		l := failing(s, call).lab()
		seen, err := l.Observe(t.Context(), up.Options{})
		must(t, err)
		if steps := l.Plan(t.Context(), up.Options{}, seen); plan.Changes(steps) {
			t.Errorf("%s fails:\n%s", call, plan.String(steps))
		}
	}
}

// newer is the Supply of a newer version of lab.
type newer struct{ supply }

func (newer) Image(_ context.Context, name string, _ lab.Progress) (lab.Image, error) {
	return lab.Image{Name: name, Ref: "example.org/" + name + ":2", Digest: "sha256:newer"}, nil
}

func (newer) Chart(_ context.Context, name, version string, _ lab.Progress) (lab.Chart, error) {
	return lab.Chart{Name: name, Version: version, Digest: "sha256:newer"}, nil
}

// A newer version of lab updates a lab without recreating clusters.
func TestUpgrade(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	p := &process{stage: s}
	l := p.lab()
	l.Supply = newer{}
	seen, err := l.Observe(t.Context(), up.Options{})
	must(t, err)
	for _, st := range l.Plan(t.Context(), up.Options{}, seen) {
		switch st.Kind {
		case plan.KindForge, plan.KindEngine:
			if st.Action != lab.ActionUpdate {
				t.Errorf("%s: %s", st.ID, st.Action)
			}
		case plan.KindCluster:
			if st.Action != lab.ActionNone {
				t.Errorf("%s: %s", st.ID, st.Action)
			}
		}
	}
}

// A missing root application is reported before any wait.
func TestNoRoot(t *testing.T) {
	s := newStage(t)
	delete(s.files, lab.RootFile)
	est := *s.estate
	est.FS = s.files
	s.estate = &est
	p := &process{stage: s}
	if err := plainUp(t.Context(), p); err == nil || slices.Contains(p.calls, "engine.root") {
		t.Errorf("%v", err)
	}
}

func TestOutcomeChanged(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	for _, want := range [][]string{{"estate", "bridge prod", "addons"}, nil} {
		if want != nil {
			s.edit()
		}
		out, err := (&process{stage: s}).lab().Follow(t.Context(), up.Options{Timeout: time.Second}, &audience{})
		if must(t, err); !slices.Equal(out.Changed(), want) {
			t.Errorf("changed %q, want %q", out.Changed(), want)
		}
	}
}

// An unreadable record is reported, with and without changes.
func TestUnreadableRecord(t *testing.T) {
	s := newStage(t)
	for range 2 {
		must(t, os.WriteFile(filepath.Join(s.dir.Path, "lab.json"), []byte("{"), 0o600))
		var e *lab.Error
		if err := plainUp(t.Context(), &process{stage: s}); !errors.As(err, &e) || e.Code != state.CodeGarbled {
			t.Errorf("%v", err)
		}
	}
}

// An interrupted observation does not mark the hub as unreachable.
func TestObserveInterrupted(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	s.forge.Stop() // so that no other request is made
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := &process{stage: s, hit: func(_ int, call string) effect {
		if call != "engine.snapshot" {
			return effect{}
		}
		cancel()
		return effect{before: context.Canceled}
	}}
	if seen, err := p.lab().Observe(ctx, up.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %+v", err, seen.Observed)
	}
}

// An unchanged engine is reported after its hub was off.
func TestEngineOfStoppedHub(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	s.clusters.Stop("hub")
	changed, err := (&process{stage: s}).up(t.Context(), up.Options{})
	if must(t, err); !slices.Contains(changed, "engine: the hub is stopped") {
		t.Errorf("changed %q", changed)
	}
}
