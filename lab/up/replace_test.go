package up_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/state"
	"homelab/lab/up"
)

// onFormer returns a converged lab whose engine differs from its estate's.
func onFormer(t *testing.T, s *stage) {
	converge(t, s)
	id := s.clusters.Identity("hub")
	was := s.engines[id]
	delete(s.engines, id)
	s.former = was
	record, err := s.dir.Load()
	must(t, err)
	record.Engine = state.Engine{Type: lab.EngineFlux}
	must(t, s.dir.Save(record))
}

// switchingUp is `lab up --switch-engine`.
func switchingUp(ctx context.Context, p *process) error {
	o := up.Options{Switch: true}
	was, err := p.dir.Load()
	if err == nil {
		_, err = p.lab().Settle(ctx, was, was, o)
	}
	if err == nil {
		_, err = p.up(ctx, o)
	}
	return err
}

func TestSwitch(t *testing.T) {
	s := newStage(t)
	onFormer(t, s)
	applied := s.former.Applied()
	if len(applied) < 2 || len(s.former.Traces()) == 0 {
		t.Fatalf("%v", applied)
	}
	p := &process{stage: s}
	must(t, switchingUp(t.Context(), p))
	if traces := s.former.Traces(); len(traces) > 0 {
		t.Errorf("left: %v", traces)
	}
	if after := s.engines[s.clusters.Identity("hub")].Applied(); !slices.Equal(after, applied) || !slices.Equal(s.former.Applied(), applied) {
		t.Errorf("applied before %v, now %v", applied, after)
	}
	retire := slices.Index(p.calls, "former.retire dev prod")
	for i, call := range p.calls {
		if retire < 0 || i < retire && (strings.HasPrefix(call, "engine.install") || strings.HasPrefix(call, "engine.register")) {
			t.Fatalf("%d: %s before the former engine was removed: %v", i, call, p.calls)
		}
	}
	record, err := s.dir.Load()
	if err != nil || record.Type != lab.EngineArgoCD || record.Former != (state.Engine{}) {
		t.Errorf("%+v, %v", record, err)
	}
	if changed, err := p.up(t.Context(), up.Options{}); err != nil || len(changed) > 0 {
		t.Errorf("second run: %v, %v", changed, err)
	}
}

// A replacement must be requested, even without a record, and covers all clusters.
func TestSwitchUnasked(t *testing.T) {
	for name, lose := range map[string]bool{"recorded": false, "record lost": true} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			onFormer(t, s)
			if lose {
				must(t, s.dir.Save(state.Record{Lab: "demo"}))
			}
			before := s.former.Contents()
			p := &process{stage: s}
			var e *lab.Error
			if _, err := p.up(t.Context(), up.Options{}); !errors.As(err, &e) || e.Code != "other_engine" || e.Exit != lab.ExitFailed || !strings.Contains(e.Cure, "--engine argocd --switch-engine") {
				t.Fatalf("%v", err)
			}
			if after := s.former.Contents(); !slices.Equal(before, after) {
				t.Errorf("before %v\nafter %v", before, after)
			}
			if _, err := p.up(t.Context(), up.Options{Switch: true}); err != nil {
				t.Fatal(err)
			}
			if traces := s.former.Traces(); len(traces) > 0 {
				t.Errorf("left: %v", traces)
			}
		})
	}
	s := newStage(t)
	l := (&process{stage: s}).lab()
	was := state.Record{Lab: "demo", Engine: state.Engine{Type: lab.EngineFlux}, Ports: state.Ports{Engine: 8080, Forge: 3000}}
	var e *lab.Error
	if _, err := l.Settle(t.Context(), was, was, up.Options{Switch: true, Others: true}); !errors.As(err, &e) || e.Exit != lab.ExitInvalid {
		t.Errorf("--only: %v", err)
	}
	// The change is reverted before the first replacement ended.
	was = state.Record{Lab: "demo", Engine: state.Engine{Type: lab.EngineFlux}, Former: state.Engine{Type: lab.EngineArgoCD, Namespace: "gitops"}, Ports: was.Ports}
	is, err := l.Settle(t.Context(), was, was, up.Options{Switch: true})
	if err != nil || is.Type != lab.EngineArgoCD || is.Former != (state.Engine{Type: lab.EngineFlux}) {
		t.Errorf("%+v, %v", is, err)
	}
}

// An unreachable cluster that left the estate keeps its traces; one in the estate is waited for.
func TestSwitchUnreachableCluster(t *testing.T) {
	s := newStage(t)
	onFormer(t, s)
	s.leave("dev")
	s.clusters.Silence("dev", true)
	p := &process{stage: s}
	changes, err := p.up(t.Context(), up.Options{Switch: true})
	if err != nil || !slices.ContainsFunc(changes, func(c string) bool {
		return strings.Contains(c, "cluster dev, which left the estate and does not answer, keeps its traces")
	}) {
		t.Errorf("%v, %v", changes, err)
	}
	if !slices.Contains(p.calls, "former.retire prod") {
		t.Errorf("%v", p.calls)
	}
}
