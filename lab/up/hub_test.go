package up_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/snapshot"
	"homelab/lab/state"
	"homelab/lab/up"
)

// The engine receives the estate's names for mirrored repositories and addresses.
func TestHub(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	s.files["charts/own/Chart.yaml"] = &fstest.MapFile{Data: []byte("name: own\nversion: 1.2.3\n"), Mode: 0o644}
	s.files["charts/broken/Chart.yaml"] = &fstest.MapFile{Data: []byte("version: [\n"), Mode: 0o644}
	s.load()
	l := (&process{stage: s}).lab()
	l.Connect = nil
	var got engine.Hub
	l.Definition.Connect = func(h engine.Hub) (engine.Engine, error) { got = h; return nil, errFull }
	if _, err := l.Hub(); !errors.Is(err, errFull) {
		t.Fatal(err)
	}
	if got.Lab != "demo" || got.Config.Host != "https://"+lab.KindName("demo", "hub") {
		t.Errorf("%s at %s", got.Lab, got.Config.Host)
	}
	if addons := got.Names.Addons; addons["podinfo"] != "podinfo" {
		t.Errorf("addons %q", addons)
	}
	if clusters := got.Names.Clusters; len(clusters) != 3 || clusters["https://demo-dev-control-plane:6443"] != "dev" {
		t.Errorf("clusters %q", clusters)
	}
	for dir, want := range map[string]string{"charts/own": "1.2.3", "charts/broken": "", "charts/none": ""} {
		if version := got.ChartVersion(dir); version != want {
			t.Errorf("%s has version %q", dir, version)
		}
	}

	l = failing(s, "clusters.rest-config hub").lab()
	l.Connect = nil
	l.Definition.Connect = func(engine.Hub) (engine.Engine, error) { t.Error("connected without a hub"); return nil, nil }
	if _, err := l.Hub(); !errors.Is(err, errFull) {
		t.Errorf("without a hub: %v", err)
	}
}

// A lab can be removed without its estate.
func TestHubWithoutEstate(t *testing.T) {
	s := attachedLab(t)
	p := &process{stage: s}
	p.estate = nil
	l := p.lab()
	l.Connect = nil
	l.Definition.Connect = func(h engine.Hub) (engine.Engine, error) {
		if len(h.Names.Addons)+len(h.Names.Clusters) > 0 || h.ChartVersion("charts/own") != "" {
			t.Errorf("%+v", h.Names)
		}
		return nil, errFull
	}
	if _, err := l.Remove(t.Context(), up.DownOptions{Existed: true}, silent); !errors.Is(err, errFull) {
		t.Errorf("%v", err)
	}
}

func TestRegistrationsOf(t *testing.T) {
	s := newStage(t)
	for cluster, want := range map[string][]string{"": {"dev", "hub", "prod"}, "dev": {"dev"}} {
		list, err := up.RegistrationsOf("demo", s.estate, cluster)
		must(t, err)
		var names []string
		for _, r := range list {
			names = append(names, r.Cluster)
		}
		if !slices.Equal(names, want) {
			t.Errorf("of %q: %q", cluster, names)
		}
	}
	var e *lab.Error
	if _, err := up.RegistrationsOf("demo", s.estate, "moon"); !errors.As(err, &e) || e.Exit != lab.ExitInvalid || e.Cure != "there are: dev, hub, prod" {
		t.Errorf("%v", err)
	}
	if err := up.Recreatable(s.estate, []string{"moon"}); !errors.As(err, &e) || e.Exit != lab.ExitInvalid {
		t.Errorf("%v", err)
	}
	if err := up.Recreatable(s.estate, []string{"dev"}); err != nil {
		t.Error(err)
	}
}

func TestRepositoryURL(t *testing.T) {
	l := (&process{stage: newStage(t)}).lab()
	for credentials, want := range map[bool]string{false: "http://127.0.0.1:3000/lab/estate.git", true: "http://lab:f@127.0.0.1:3000/lab/estate.git"} {
		if got := l.RepositoryURL("estate", credentials); got != want {
			t.Error(got)
		}
	}
}

func TestSummary(t *testing.T) {
	for want, changes := range map[string][]string{"unchanged": nil, "a": {"a"}, "a, b": {"a", "b"}, "a and 2 more": {"a", "b", "c"}} {
		if got := up.Summary(changes); got != want {
			t.Errorf("%q: %s", changes, got)
		}
	}
}

// A running engine keeps its namespace; on a recreated hub it moves.
func TestSettleMovedEngine(t *testing.T) {
	s := newStage(t)
	l := (&process{stage: s}).lab()
	was := state.Record{Lab: "demo", Engine: state.Engine{Type: lab.EngineArgoCD}, Ports: state.Ports{Engine: 8080, Forge: 3000}}
	is := was
	is.Namespace = "gitops"
	var e *lab.Error
	if r, err := l.Settle(t.Context(), was, is, up.Options{}); !errors.As(err, &e) || e.Code != "recreate" || r != was || s.dir.Exists() {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := l.Settle(t.Context(), was, is, up.Options{Recreate: []string{"hub"}}); err != nil || r != is {
		t.Errorf("%+v, %v", r, err)
	}
	if saved, err := s.dir.Load(); err != nil || saved != is {
		t.Errorf("%+v, %v", saved, err)
	}
	never := state.Record{Lab: "demo", Ports: was.Ports}
	moved := never
	moved.Namespace = "gitops"
	if r, err := l.Settle(t.Context(), never, moved, up.Options{}); err != nil || r != moved {
		t.Errorf("before the first run: %+v, %v", r, err)
	}
}

// An engine is not installed over another.
func TestSettleOtherEngine(t *testing.T) {
	s := newStage(t)
	l := (&process{stage: s}).lab()
	was := state.Record{Lab: "demo", Engine: state.Engine{Type: lab.EngineFlux}, Ports: state.Ports{Engine: 8080, Forge: 3000}}
	is := was
	is.Images = "source"
	var e *lab.Error
	if r, err := l.Settle(t.Context(), was, is, up.Options{}); !errors.As(err, &e) || e.Code != "other_engine" || r != was || s.dir.Exists() {
		t.Errorf("%+v, %v", r, err)
	}
	was.Type, is.Type = lab.EngineArgoCD, lab.EngineArgoCD
	if r, err := l.Settle(t.Context(), was, is, up.Options{}); err != nil || r != is {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestEngineOf(t *testing.T) {
	est := &lab.Estate{Clusters: []lab.Cluster{{Name: "hub", Role: lab.RoleHub, Engine: lab.EngineSpec{Type: lab.EngineFlux}}}}
	for _, tc := range []struct {
		record lab.EngineType
		estate *lab.Estate
		want   lab.EngineType
	}{
		{"", nil, lab.EngineArgoCD}, {lab.EngineFlux, nil, lab.EngineFlux}, {lab.EngineArgoCD, est, lab.EngineFlux},
	} {
		if got := up.EngineOf(state.Record{Engine: state.Engine{Type: tc.record}}, tc.estate).Type; got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
	if got := up.EngineOf(state.Record{Engine: state.Engine{Shape: lab.ShapeStandalone}}, nil).Type; got != lab.EngineFlux {
		t.Errorf("before the engine is installed: %s", got)
	}
}

func TestSettleFails(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	s := newStage(t)
	l := (&process{stage: s}).lab()
	was, is := state.Record{Images: "auto"}, state.Record{Lab: "demo"}
	for name, c := range map[string]up.Containers{
		"an invalid port": published{"demo-hub-control-plane": {"30080/tcp": "127.0.0.1:http"}}, "no answer": unpublished{},
	} {
		l.Containers = c
		if r, err := l.Settle(t.Context(), was, is, up.Options{}); err == nil || r != was || s.dir.Exists() {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	l.Containers, l.Dir = published{}, &state.Dir{Lab: "demo", Path: "/dev/null/demo"}
	if _, err := l.Settle(t.Context(), was, is, up.Options{}); err == nil {
		t.Error("no error for a record that cannot be written")
	}
	if r, err := l.Settle(t.Context(), was, was, up.Options{}); err == nil {
		t.Errorf("%+v", r) // has no ports
	}
	was.Ports = state.Ports{Engine: 8080, Forge: 3000}
	if r, err := l.Settle(t.Context(), was, was, up.Options{}); err != nil || r != was {
		t.Errorf("nothing changed: %+v, %v", r, err)
	}
}

// unpublished is a container engine that fails to list ports.
type unpublished struct{ silentEngine }

func (unpublished) Published(context.Context, string) (map[string]map[string]string, error) {
	return nil, errFull
}

func TestEngineNamespace(t *testing.T) {
	r := state.Record{Engine: state.Engine{Namespace: "recorded"}}
	if got := up.EngineOf(r, nil).Namespace; got != "recorded" {
		t.Error(got)
	}
	est := &lab.Estate{Clusters: []lab.Cluster{{Name: "hub", Role: lab.RoleHub, Engine: lab.EngineSpec{Namespace: "written"}}}}
	if got := up.EngineOf(r, est).Namespace; got != "written" {
		t.Error(got)
	}
}

// A snapshot holds everything the lab created, and nothing else.
func TestSnapshotContents(t *testing.T) {
	s := attachedLab(t)
	o, err := (&process{stage: s}).lab().SaveSnapshot(t.Context(), "one", false, up.Consent{}, silent)
	must(t, err)
	want := []string{"demo-dev-control-plane", "demo-hub-control-plane", "demo-prod-control-plane", lab.ForgeName("demo")}
	if got := o.Containers(); !slices.Equal(got, want) || len(o.Clusters) != 3 || o.Subnet == "" {
		t.Errorf("%q, %+v", got, o.Contents)
	}
	if _, err := (&process{stage: s}).lab().SaveSnapshot(t.Context(), "one", false, up.Consent{}, silent); err == nil {
		t.Error("snapshot was replaced")
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.Recovered(stopped, silent); !errors.Is(err, context.Canceled) { // there are applications to wait for
		t.Error(err)
	}
	held := up.Held(s.estate, o.Snapshot)
	var names []string
	for _, c := range held.Clusters {
		names = append(names, c.Name)
	}
	if !slices.Equal(names, []string{"dev", "edge", "hub", "prod"}) || held.Others {
		t.Errorf("%q, %t", names, held.Others)
	}
}

func TestSnapshotFails(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	for _, call := range []string{"clusters.observe", "forge.observe"} {
		if _, err := failing(s, call).lab().SaveSnapshot(t.Context(), "one", false, up.Consent{}, silent); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if list, err := s.shelf.List(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, _, err := failing(s, "clusters.observe").lab().Pending(t.Context(), "one", ""); !errors.Is(err, errFull) {
		t.Errorf("pending: %v", err)
	}
}

// A failed restore is reported, and stays pending once anything was removed.
func TestRestoreFails(t *testing.T) {
	var e *lab.Error
	s := newStage(t)
	spoiled(t, s)
	was := s.clusters.Whole()
	if _, err := (&process{stage: s}).lab().Restore(t.Context(), "none", up.Consent{}, silent); !errors.As(err, &e) || e.Code != snapshot.CodeNone {
		t.Errorf("%v", err)
	}
	p := &process{stage: s}
	l := p.lab()
	l.Dir = &state.Dir{Lab: "demo", Path: "/dev/null/demo"}
	if _, err := l.Restore(t.Context(), "one", up.Consent{}, silent); err == nil || slices.Contains(p.calls, "clusters.delete dev") {
		t.Errorf("without a marker: %v, calls %q", err, p.calls)
	}
	s.requireKept(t, was, "after restores that failed to begin")

	l = (&process{stage: s}).lab()
	l.Snapshots = losing{s.shelf}
	if _, err := l.Restore(t.Context(), "one", up.Consent{}, silent); err == nil || !strings.Contains(err.Error(), "node demo-") || s.dir.Restoring() != "one" {
		t.Errorf("%v", err)
	}
}

// A restore whose marker remains is reported and repeated.
func TestRestoreMarkerRemains(t *testing.T) {
	s := newStage(t)
	spoiled(t, s)
	l := (&process{stage: s}).lab()
	l.Dir = &state.Dir{Lab: "demo", Path: s.dir.Path}
	l.Snapshots = disturbed{s.shelf, func() { l.Dir.Path = "/dev/null/demo" }}
	if _, err := l.Restore(t.Context(), "one", up.Consent{}, silent); err == nil || s.dir.Restoring() != "one" {
		t.Errorf("%v", err)
	}
}

// disturbed are snapshots with a hook at Start.
type disturbed struct {
	*shelf
	happens func()
}

func (s disturbed) Start(ctx context.Context, o snapshot.Snapshot, network string) error {
	s.happens()
	return s.shelf.Start(ctx, o, network)
}

// losing are snapshots whose restore loses a node.
type losing struct{ *shelf }

func (l losing) Place(ctx context.Context, o snapshot.Snapshot, p lab.Progress) (map[string]string, error) {
	ids, err := l.shelf.Place(ctx, o, p)
	delete(ids, "demo-dev-control-plane")
	return ids, err
}

// Without a connection to the hub, every step that needs it fails.
func TestNoConnection(t *testing.T) {
	s := newStage(t)
	p := &process{stage: s}
	l := p.lab()
	l.Connect = func(string) (up.Engine, error) { return nil, errFull }
	out, err := l.Follow(t.Context(), up.Options{}, stepRecorder{p})
	if !errors.Is(err, errFull) {
		t.Errorf("%v", err)
	}
	for _, r := range out.Result.Steps {
		if r.Name == "engine" && r.Result != string(lab.StepFailed) {
			t.Errorf("%+v", r)
		}
	}
}
