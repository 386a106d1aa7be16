package up_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/enginetest"
	"homelab/lab/engine/flux"
	"homelab/lab/estate"
	"homelab/lab/fluxset"
	"homelab/lab/state"
	"homelab/lab/up"
)

// spokeEngine is a spoke's own engine.
type spokeEngine struct {
	*enginetest.Fake
	mu     sync.Mutex
	inputs string
	values map[string]any
	err    error
}

func (e *spokeEngine) Observe(ctx context.Context) (engine.State, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return engine.State{}, e.err
	}
	s, err := e.Fake.Observe(ctx)
	s.Inputs = e.inputs
	return s, err
}

func (e *spokeEngine) Install(ctx context.Context, chart lab.Chart, values map[string]any, p lab.Progress) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.values = values
	e.inputs = inputsOf(values)
	return e.Fake.Install(ctx, chart, values, p)
}

func inputsOf(values map[string]any) string { return fmt.Sprint(values) }

// standalone is a stage whose clusters each run an engine.
func standalone(t *testing.T) (s *stage, lab1 func() *up.Lab, spokes map[string]*spokeEngine) {
	t.Helper()
	s = newStage(t)
	edit(s.files, lab.ClusterFile("hub"), "{type: argocd}", "{type: flux, shape: standalone}")
	est, err := estate.Load(s.files, "", "demo", estate.Ungenerated())
	must(t, err)
	written, err := fluxset.Files(s.files, est.Clusters)
	must(t, err)
	for name, text := range written {
		s.files[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	left, err := fluxset.Left(s.files, written)
	must(t, err)
	for _, name := range left {
		delete(s.files, name)
	}
	if _, err := estate.Load(s.files, "", "demo"); err != nil {
		var bad *lab.Error
		errors.As(err, &bad)
		t.Fatal(bad.Problems)
	}
	s.load()
	spokes = map[string]*spokeEngine{"dev": {Fake: enginetest.NewFake()}, "prod": {Fake: enginetest.NewFake()}}
	return s, func() *up.Lab {
		l := (&process{stage: s}).lab()
		l.Definition = flux.Standalone("")
		l.Definition.On = func(h engine.Hub) (engine.Installer, error) {
			if h.Lab != "demo" || h.Config.Host != "https://"+lab.KindName("demo", h.Cluster) {
				t.Errorf("engine of %s at %s", h.Cluster, h.Config.Host)
			}
			return spokes[h.Cluster], nil
		}
		return l
	}, spokes
}

func stepsOf(out up.Outcome) map[string]lab.Step {
	m := map[string]lab.Step{}
	for _, s := range out.Steps {
		m[s.ID] = s
	}
	return m
}

func TestStandalone(t *testing.T) {
	s, newLab, spokes := standalone(t)
	l := newLab()
	l.Definition.Inputs = func(_ lab.Chart, values map[string]any) (string, error) { return inputsOf(values), nil }
	hub := &rootKeeper{}
	connect := l.Connect
	l.Connect = func(name string) (up.Engine, error) {
		e, err := connect(name)
		hub.Engine = e
		return hub, err
	}
	follow := func() map[string]lab.Step {
		t.Helper()
		out, err := l.Follow(t.Context(), up.Options{Timeout: 1e9}, stepRecorder{&process{stage: s}})
		must(t, err)
		return stepsOf(out)
	}
	steps := follow()
	for _, name := range []string{"dev", "prod"} {
		if steps["engine/"+name].Action != lab.ActionCreate || spokes[name].values == nil {
			t.Errorf("engine of %s: %+v", name, steps["engine/"+name])
		}
		if got := string(hub.root.Own[name]); !strings.Contains(got, "path: ./clusters/"+name+"\n") {
			t.Errorf("root of %s:\n%s", name, got)
		}
		states, err := s.clusters.Observe(t.Context(), name)
		must(t, err)
		if len(states) != 1 || !slices.ContainsFunc(states[0].Images, func(i string) bool {
			return strings.HasPrefix(i, l.Definition.Images[0]+"-")
		}) {
			t.Errorf("images of %s: %q", name, states[0].Images)
		}
	}

	holds, err := s.forge.Contents(t.Context())
	must(t, err)
	for _, name := range []string{"hub", "dev", "prod"} {
		if hook := "http://demo-" + name + "-control-plane:30080/hook/"; !strings.Contains(holds[0], hook) {
			t.Errorf("no webhook for %s: %s", name, holds[0])
		}
	}

	spokes["dev"].mu.Lock()
	spokes["dev"].inputs = "other"
	spokes["dev"].mu.Unlock()
	spokes["prod"].err = errors.New("connection refused")
	steps = follow()
	if got := steps["engine/dev"]; got.Action != lab.ActionUpdate || spokes["dev"].inputs == "other" {
		t.Errorf("%+v", got)
	}
	if got := steps["engine/prod"]; got.Action != lab.ActionRepair || got.Reason != "the cluster did not answer" {
		t.Errorf("%+v", got)
	}
	st, err := l.Status(t.Context())
	must(t, err)
	if len(st.Off) != 0 {
		t.Errorf("off: %q", st.Off)
	}
	spokes["prod"].err, spokes["prod"].Fake = nil, enginetest.NewFake()
	if st, err = l.Status(t.Context()); err != nil || !slices.Equal(st.Off, []string{"the engine of prod is absent"}) || st.Well() {
		t.Errorf("off: %q, %v", st.Off, err)
	}
}

// rootKeeper records its root.
type rootKeeper struct {
	up.Engine
	root engine.Root
}

func (k *rootKeeper) ApplyRoot(ctx context.Context, root engine.Root) (bool, error) {
	k.root = root
	return k.Engine.ApplyRoot(ctx, root)
}

// A lab keeps its shape unless a change is requested.
func TestSettleShape(t *testing.T) {
	_, newLab, _ := standalone(t)
	l := newLab()
	was := state.Record{Lab: "demo", Engine: state.Engine{Type: l.Definition.Type}, Ports: state.Ports{Engine: 8080, Forge: 3000}}
	is := was
	is.Shape = up.EngineOf(is, l.Estate).Shape
	var failed *lab.Error
	if _, err := l.Settle(t.Context(), was, is, up.Options{}); is.Shape != lab.ShapeStandalone || !errors.As(err, &failed) || failed.Code != "other_engine" || !strings.Contains(failed.Cure, "undo the change of spec.engine.shape in clusters/hub/cluster.yaml") {
		t.Errorf("%q: %v", is.Shape, err)
	}
	if r, err := l.Settle(t.Context(), was, is, up.Options{Switch: true}); err != nil || r.Shape != lab.ShapeStandalone || r.Former != (state.Engine{Type: lab.EngineFlux}) {
		t.Errorf("%+v, %v", r, err)
	}
	was.Type = "" // before the first run ended
	if _, err := l.Settle(t.Context(), was, is, up.Options{}); err != nil {
		t.Error(err)
	}
	if got := up.EngineOf(is, nil).Shape; got != lab.ShapeStandalone {
		t.Errorf("without an estate: %q", got)
	}
}
