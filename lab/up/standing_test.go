package up_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/enginetest"
	"homelab/lab/up"
)

func TestStatus(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	st, err := (&process{stage: s}).lab().Status(t.Context())
	must(t, err)
	if st.Engine != lab.EngineArgoCD || st.Revision != s.head(t) || !st.Forge.Answers || len(st.Off) > 0 || !st.Well() {
		t.Errorf("%+v", st)
	}
	var clusters, apps []string
	for _, c := range st.Clusters {
		clusters = append(clusters, c.Name+" "+string(c.Role)+" "+c.Env+" "+c.Phase())
	}
	if !slices.Equal(clusters, []string{"dev spoke dev ready", "hub hub  ready", "prod spoke prod ready"}) {
		t.Errorf("clusters %q", clusters)
	}
	for _, a := range st.Applications {
		apps = append(apps, a.Name+" "+a.Sync+" "+a.Health)
	}
	if !slices.Equal(apps, []string{"dev-podinfo Synced Healthy", "prod-podinfo Synced Healthy"}) {
		t.Errorf("applications %q", apps)
	}
}

// Status lists stopped parts as off and unreachable ones as unknown, without an error.
func TestStatusOff(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(s *stage)
		off    []string
		engine bool // answers
	}{
		"a spoke is stopped":  {func(s *stage) { s.clusters.Stop("dev") }, []string{"cluster dev is stopped"}, true},
		"a spoke is silent":   {func(s *stage) { s.clusters.Silence("dev", true) }, []string{"cluster dev is unreachable"}, true},
		"a spoke is gone":     {func(s *stage) { s.clusters.Lose("dev") }, nil, true},
		"the hub is stopped":  {func(s *stage) { s.clusters.Stop("hub") }, []string{"cluster hub is stopped"}, false},
		"the forge is off":    {func(s *stage) { s.forge.Stop() }, []string{"the forge is stopped"}, true},
		"the forge is silent": {func(s *stage) { s.forge.Silence(true) }, []string{"the forge is unreachable"}, true},
		"the forge is gone":   {func(s *stage) { must(s.t, s.forge.Remove(s.t.Context())) }, []string{"the forge is absent"}, true},
		"a restore began":     {func(s *stage) { must(s.t, s.dir.SaveRestoring("one")) }, []string{"the restore of snapshot one has not ended"}, true},
		"no engine is there": {func(s *stage) {
			s.engines[s.clusters.Identity("hub")] = &hubEngine{Fake: enginetest.NewFake()}
		}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			converge(t, s)
			c.spoil(s)
			st, err := (&process{stage: s}).lab().Status(t.Context())
			must(t, err)
			if !slices.Equal(st.Off, c.off) || (st.Engine != "") != c.engine || (len(st.Applications) == 2) != c.engine {
				t.Errorf("off %q, engine %q, %+v", st.Off, st.Engine, st.Applications)
			}
			if st.Well() {
				t.Error("Well = true")
			}
		})
	}
}

// starting is an engine that is not ready.
type starting struct{ up.Engine }

func (e starting) Observe(ctx context.Context) (engine.State, error) {
	st, err := e.Engine.Observe(ctx)
	st.Ready, st.Waiting = false, "repo-server 0 of 1 ready"
	return st, err
}

func TestStatusEngineNotReady(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	l := (&process{stage: s}).lab()
	connect := l.Connect
	l.Connect = func(hub string) (up.Engine, error) {
		e, err := connect(hub)
		return starting{e}, err
	}
	st, err := l.Status(t.Context())
	if must(t, err); !slices.Equal(st.Off, []string{"the engine is not ready: repo-server 0 of 1 ready"}) || st.Well() {
		t.Errorf("%+v", st)
	}
}

func TestStatusFails(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	for _, call := range []string{"clusters.observe", "forge.observe", "engine.observe", "engine.snapshot"} {
		if _, err := failing(s, call).lab().Status(t.Context()); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", call, err)
		}
	}
	l := (&process{stage: s}).lab()
	l.Connect = func(string) (up.Engine, error) { return nil, errFull }
	if _, err := l.Status(t.Context()); !errors.Is(err, errFull) {
		t.Errorf("no connection: %v", err)
	}
}

func TestWell(t *testing.T) {
	well := func() up.Status {
		return up.Status{
			Engine: lab.EngineArgoCD, Clusters: []lab.ClusterState{{Name: "hub", Ready: true}},
			Applications: []lab.Application{{Name: "a", Sync: "Synced", Health: "Healthy"}, {Name: "b", Health: "Missing", LeftOut: "charts.example.com does not answer"}},
		}
	}
	if !well().Well() {
		t.Error("Well = true")
	}
	for name, spoil := range map[string]func(*up.Status){
		"no clusters":        func(s *up.Status) { s.Clusters = nil },
		"not ready":          func(s *up.Status) { s.Clusters[0].Ready = false },
		"no engine":          func(s *up.Status) { s.Engine = "" },
		"off":                func(s *up.Status) { s.Off = []string{"the forge is stopped"} },
		"not healthy":        func(s *up.Status) { s.Applications[0].Health = "Degraded" },
		"no longer left out": func(s *up.Status) { s.Applications[1].LeftOut = "" },
	} {
		s := well()
		if spoil(&s); s.Well() {
			t.Errorf("%s: Well = true", name)
		}
	}
}
