package up_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/enginetest"
	"homelab/lab/plan"
	"homelab/lab/state"
	"homelab/lab/up"
)

// failing returns a process in which one call always fails.
func failing(s *stage, call string) *process {
	return &process{stage: s, hit: func(_ int, name string) effect {
		if name == call {
			return effect{before: errFull}
		}
		return effect{}
	}}
}

// A lab is not up to date while a part of it cannot be observed.
func TestObserveFails(t *testing.T) {
	for _, call := range []string{
		"clusters.observe", "clusters.has-network", "forge.observe", "forge.diff", "forge.ahead", "forge.has-webhook", "forge.missing-charts", "forge.mirrored",
		"supply.chart podinfo 6.9.2",
	} {
		t.Run(call, func(t *testing.T) {
			s := mirrored(t)
			converge(t, s)
			mounts := s.estate.Repositories
			s.commit(t, "clusters/NOTES.md", "mind the gap\n")
			s.estate.Repositories = mounts
			if _, err := failing(s, call).lab().Observe(t.Context(), up.Options{}); err == nil || !strings.Contains(err.Error(), errFull.Error()) {
				t.Errorf("%v", err)
			}
		})
	}
}

// If the hub stops answering during an observation, its contents are unknown, neither absent nor up to date.
func TestHubUnreachable(t *testing.T) {
	for _, call := range []string{"engine.observe", "engine.check-credentials dev", "engine.snapshot", "engine.drift"} {
		t.Run(call, func(t *testing.T) {
			s := newStage(t)
			converge(t, s)
			l := failing(s, call).lab()
			seen, err := l.Observe(t.Context(), up.Options{})
			must(t, err)
			if seen.Hub || seen.Engine.Installed || seen.Root || len(seen.Registered)+len(seen.Bridge)+len(seen.Drift)+len(seen.Applications)+len(seen.Behind) > 0 {
				t.Errorf("%+v", seen.Observed)
			}
			steps := l.Plan(t.Context(), up.Options{}, seen)
			for _, kind := range []string{plan.KindEngine, plan.KindBridge, plan.KindAddons} {
				if i := slices.IndexFunc(steps, func(st lab.Step) bool { return st.Kind == kind }); steps[i].Action != lab.ActionRepair {
					t.Errorf("step %s: %s", kind, steps[i].Action)
				}
			}
		})
	}
}

func TestObserveConvergedLab(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	seen, err := (&process{stage: s}).lab().Observe(t.Context(), up.Options{})
	must(t, err)
	if !seen.Network || !seen.Hub || !seen.Root || !seen.Engine.Installed || seen.Supplied == 0 || len(seen.Missing)+len(seen.Estate)+len(seen.Drift)+len(seen.Behind) > 0 {
		t.Errorf("%+v", seen.Observed)
	}
	if len(seen.Applications) != 2 || !slices.Equal(seen.Registered, []string{"dev", "hub", "prod"}) || !slices.Equal(seen.Expected, []string{"dev-podinfo", "prod-podinfo"}) {
		t.Errorf("%+v", seen.Observed)
	}
}

// A removed engine is absent, and is reinstalled with all registrations.
func TestEngineRemoved(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	s.engines[s.clusters.Identity("hub")] = &hubEngine{Fake: enginetest.NewFake()}
	seen, err := (&process{stage: s}).lab().Observe(t.Context(), up.Options{})
	if must(t, err); !seen.Hub || seen.Engine.Installed || len(seen.Registered) > 0 {
		t.Errorf("%+v", seen.Observed)
	}
	changed, err := (&process{stage: s}).up(t.Context(), up.Options{})
	must(t, err)
	for _, want := range []string{"engine: absent", "bridge/dev: registered as https://demo-dev-control-plane:6443", "addons: root application"} {
		if !slices.Contains(changed, want) {
			t.Errorf("%q does not contain %q", changed, want)
		}
	}
}

// A cluster that rejects the engine's credentials is registered again; an unreachable one is not checked.
func TestRevokedRegistration(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	s.engines[s.clusters.Identity("hub")].Revoke()
	p := failing(s, "clusters.rest-config dev")
	seen, err := p.lab().Observe(t.Context(), up.Options{})
	must(t, err)
	if len(seen.Bridge["dev"]) > 0 || !slices.Equal(seen.Bridge["prod"], []string{"its token is unknown there"}) || slices.Contains(p.calls, "engine.check-credentials dev") {
		t.Errorf("%q, calls %q", seen.Bridge, p.calls)
	}
	for name, want := range map[string]bool{"engine.check-credentials prod": true, "engine.check-credentials hub": false} {
		if slices.Contains(p.calls, name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
	changed, err := (&process{stage: s}).up(t.Context(), up.Options{})
	if must(t, err); !slices.ContainsFunc(changed, func(c string) bool { return strings.HasSuffix(c, ": credentials renewed") }) {
		t.Errorf("changed %q", changed)
	}
	if changed, err := (&process{stage: s}).up(t.Context(), up.Options{}); err != nil || len(changed) > 0 {
		t.Errorf("second run changed %q, %v", changed, err)
	}
}

// A webhook with a wrong address is repaired.
func TestWebhookElsewhere(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	_, err := s.forge.EnsureWebhook(t.Context(), "http://elsewhere", "w")
	must(t, err)
	changed, err := (&process{stage: s}).up(t.Context(), up.Options{})
	if must(t, err); !slices.Contains(changed, "estate: webhook to argo cd") {
		t.Errorf("changed %q", changed)
	}
}

// lagging is an engine that has not seen the forge's head.
type lagging struct {
	up.Engine
	asked *engine.Want
}

func (e lagging) Snapshot(ctx context.Context) (engine.Snapshot, error) {
	st, err := e.Engine.Snapshot(ctx)
	st.Behind = func(want engine.Want, _ []engine.Registered) []string { *e.asked = want; return []string{"root"} }
	return st, err
}

// A run waits for an engine behind the forge's head even if there is no other step.
func TestEngineBehind(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	l := (&process{stage: s}).lab()
	connect := l.Connect
	var asked engine.Want
	l.Connect = func(hub string) (up.Engine, error) {
		e, err := connect(hub)
		return lagging{e, &asked}, err
	}
	seen, err := l.Observe(t.Context(), up.Options{})
	must(t, err)
	if !slices.Equal(seen.Behind, []string{"root"}) || asked.Revision != s.head(t) || !maps.EqualFunc(asked.Since, s.started(t), time.Time.Equal) {
		t.Errorf("behind %q, requested %+v", seen.Behind, asked)
	}
	if steps := l.Plan(t.Context(), up.Options{}, seen); !plan.Changes(steps) {
		t.Error("plan is empty")
	}
	must(t, s.forge.Remove(t.Context()))
	if seen, err = l.Observe(t.Context(), up.Options{}); err != nil || len(seen.Behind) > 0 {
		t.Errorf("without a forge: behind %q, %v", seen.Behind, err)
	}
}

// onlyInForge returns a stage with a commit that only the forge has, and what a run observed and recorded.
func onlyInForge(t *testing.T) (*stage, *up.Lab, *up.Seen) {
	t.Helper()
	s := newStage(t)
	converge(t, s)
	s.commit(t, "clusters/NOTES.md", "mind the gap\n")
	delete(s.files, "clusters/NOTES.md")
	s.load()
	l := (&process{stage: s}).lab()
	seen, err := l.Observe(t.Context(), up.Options{})
	must(t, err)
	must(t, l.Remember(t.Context(), seen))
	return s, l, seen
}

// Commits that only the forge has are recorded, so that their loss can be reported.
func TestForgeLost(t *testing.T) {
	s, l, seen := onlyInForge(t)
	record, ok := s.dir.Forge()
	if !ok || record.Head != s.head(t) || len(record.Commits) != 1 || record.Commits[0].Author != "ann" || record.Commits[0].Subject != "notes" {
		t.Errorf("%+v", record)
	}
	l.Dir = &state.Dir{Lab: "demo", Path: "/dev/null/demo"}
	if err := l.Remember(t.Context(), seen); err == nil {
		t.Error("no error for a record that cannot be written")
	}

	must(t, s.forge.Remove(t.Context()))
	a := &audience{}
	_, err := (&process{stage: s}).lab().Follow(t.Context(), up.Options{Timeout: time.Second}, a)
	must(t, err)
	if text := strings.Join(a.lines, "\n"); !strings.Contains(text, "commits that only it had are lost: 1") || !strings.Contains(text, "notes (ann)") {
		t.Errorf("progress %q", a.lines)
	}
	a = &audience{}
	if out, err := (&process{stage: s}).lab().Follow(t.Context(), up.Options{Timeout: time.Second}, a); err != nil || !out.Idle || len(a.lines) > 0 {
		t.Errorf("second run: %+v, %v, progress %q", out.Steps, err, a.lines)
	}
}

// A deleted repository is treated like a lost volume.
func TestForgeRepositoryLost(t *testing.T) {
	s, _, _ := onlyInForge(t)
	must(t, s.forge.Unprepare())
	a := &audience{}
	_, err := (&process{stage: s}).lab().Follow(t.Context(), up.Options{Timeout: time.Second}, a)
	must(t, err)
	if text := strings.Join(a.lines, "\n"); !strings.Contains(text, "the forge's repository is gone, and commits that only it had are lost: 1") {
		t.Errorf("progress %q", a.lines)
	}
}

// Records are restored for complete clusters only.
func TestRemember(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	seen := &up.Seen{Observed: plan.Observed{Clusters: map[string]lab.ClusterState{
		"hub": {Name: "hub", Made: lab.MadeWhole, Recorded: true}, "dev": {Name: "dev", Made: lab.MadeWhole}, "prod": {Name: "prod", Made: lab.MadeWhole, Gone: 1},
		"half": {Name: "half", Made: lab.MadeHalf}, "unknown": {Name: "unknown"},
	}}}
	p := &process{stage: s}
	if must(t, p.lab().Remember(t.Context(), seen)); !slices.Equal(p.calls, []string{"clusters.record dev"}) {
		t.Errorf("calls %q", p.calls)
	}
	if err := failing(s, "clusters.record dev").lab().Remember(t.Context(), seen); !errors.Is(err, errFull) {
		t.Errorf("%v", err)
	}
	must(t, s.dir.ForgetCluster("dev"))
	if err := plainUp(t.Context(), failing(s, "clusters.record dev")); !errors.Is(err, errFull) {
		t.Errorf("run: %v", err)
	}
}

// chartless is a forge without any chart.
type chartless struct{ up.Forge }

func (chartless) MissingCharts(_ context.Context, charts []lab.Chart) (missing []string, err error) {
	for _, c := range charts {
		missing = append(missing, c.Name+" "+c.Version)
	}
	return missing, nil
}

// Only available charts are compared with the forge: fetching one would be a change.
func TestMissingCharts(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	s.fetches = true
	s.atHand.Clear()
	for _, chart := range []string{"argo-cd 3.2.11", "podinfo 6.9.2"} {
		s.atHand.Store(chart, true)
	}
	p := &process{stage: s}
	l := p.lab()
	l.Forge = chartless{l.Forge}
	seen, err := l.Observe(t.Context(), up.Options{})
	if must(t, err); !slices.Equal(seen.Estate, []string{"chart podinfo 6.9.2 is not in the forge"}) || slices.Contains(p.calls, "supply.chart podinfo 6.7.0") {
		t.Errorf("%q, calls %q", seen.Estate, p.calls)
	}
	if !slices.Contains(seen.Missing, "podinfo 6.7.0") || slices.Contains(seen.Missing, "podinfo 6.9.2") || seen.Supplied != 2 {
		t.Errorf("%d available, missing %q", seen.Supplied, seen.Missing)
	}
}
