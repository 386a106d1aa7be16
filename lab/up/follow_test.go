package up_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/snapshot"
	"homelab/lab/state"
	"homelab/lab/up"
)

// audience gives the same answer to every question.
type audience struct {
	yes          bool
	lines, asked []string
	begun        int
}

func (a *audience) Println(line string) { a.lines = append(a.lines, line) }

func (a *audience) Ask(_ context.Context, question string, loses []string) (bool, error) {
	a.asked = append(a.asked, question+" "+strings.Join(loses, ", "))
	return a.yes, nil
}

func (a *audience) Begin(*up.Seen, []lab.Step) (func(lab.Event), func()) {
	a.begun++
	return nil, func() { a.begun-- }
}

func TestFollowPrune(t *testing.T) {
	s := newStage(t)
	o := up.Options{Timeout: time.Second, PruneBy: "lab up --prune -C there"}
	follow := func(a *audience) up.Outcome {
		t.Helper()
		out, err := (&process{stage: s}).lab().Follow(t.Context(), o, a)
		must(t, err)
		if a.begun != 0 {
			t.Error("end not called")
		}
		return out
	}
	if out := follow(&audience{}); out.Idle || out.Clusters != 3 || len(out.Changed()) == 0 {
		t.Errorf("%+v", out)
	}
	if r, err := s.dir.Load(); err != nil || r.Type != lab.EngineArgoCD {
		t.Errorf("%+v, %v", r, err)
	}
	if out := follow(&audience{}); !out.Idle || out.Applications == 0 {
		t.Errorf("%+v", out)
	}
	s.leave("dev")
	no := &audience{}
	follow(no)
	if len(no.asked) != 1 || !slices.Contains(no.lines, "kept, though no longer in the estate: dev; lab up --prune -C there removes") {
		t.Errorf("questions %q, messages %q", no.asked, no.lines)
	}
	yes := &audience{yes: true}
	follow(yes)
	if len(yes.asked) != 1 || !strings.Contains(strings.Join(yes.lines, "\n"), "losing ") {
		t.Errorf("questions %q, messages %q", yes.asked, yes.lines)
	}
	if again := (&audience{}); !follow(again).Idle || len(again.asked) > 0 {
		t.Errorf("requests %q", again.asked)
	}
}

func TestSeenLosses(t *testing.T) {
	var s up.Seen
	if lines := s.Losses(); lines != nil {
		t.Errorf("%q", lines)
	}
	s.Forge.Lost = true
	if lines := s.Losses(); len(lines) != 1 || !strings.Contains(lines[0], "the working tree has every commit") {
		t.Errorf("%q", lines)
	}
	s.Lost = []state.ForgeCommit{{Hash: "0123456789", Author: "ann", Subject: "two replicas"}}
	if lines := s.Losses(); len(lines) != 2 || !strings.Contains(lines[1], "0123456 ") || !strings.HasSuffix(lines[1], "two replicas (ann)") {
		t.Errorf("%q", lines)
	}
}

// published is a container engine with published ports.
type published map[string]map[string]string

func (published) Answers(context.Context) error { return nil }

func (published) ID(context.Context) (string, error) { return "", nil }

func (published) Endpoint(context.Context) (string, error) { return "", nil }

func (published) LoadImage(context.Context, lab.Image, lab.Progress) error { return nil }

func (p published) Published(context.Context, string) (map[string]map[string]string, error) {
	return p, nil
}

func TestSettlePublishedPorts(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	s := newStage(t)
	l := (&process{stage: s}).lab()
	l.Ports = state.Ports{}
	l.Containers = published{
		"demo-hub-control-plane": {"30080/tcp": "127.0.0.1:8123", "3000/tcp": "127.0.0.1:9"},
		lab.ForgeName("demo"):    {"3000/tcp": "127.0.0.1:3123"},
	}
	r, err := l.Settle(t.Context(), state.Record{}, state.Record{Lab: "demo", Images: "auto"}, up.Options{})
	if want := (state.Ports{Engine: 8123, Forge: 3123}); err != nil || r.Ports != want || l.Ports != want {
		t.Errorf("%+v, %v", r, err)
	}
	if saved, err := s.dir.Load(); err != nil || saved != r {
		t.Errorf("%+v, %v", saved, err)
	}
	l.Containers, l.Ports = published{"demo-hub-control-plane": {"30080/tcp": "[::1]:8124"}, lab.ForgeName("demo"): {"3000/tcp": "127.0.0.1:3124"}}, state.Ports{}
	r, err = l.Settle(t.Context(), state.Record{}, state.Record{Lab: "demo", Images: "auto"}, up.Options{})
	if want := (state.Ports{Engine: 8124, Forge: 3124}); err != nil || r.Ports != want {
		t.Errorf("IPv6: %+v, %v", r, err)
	}
	hub := slices.IndexFunc(l.Estate.Clusters, func(c lab.Cluster) bool { return c.Role == lab.RoleHub })
	kind := l.Estate.Clusters[hub].Kind
	l.Estate.Clusters[hub].Kind = []byte("networking: {ipFamily: ipv6}")
	if l.EngineURL() != "http://[::1]:8124" {
		t.Errorf("IPv6: %s", l.EngineURL())
	}
	r, err = l.Settle(t.Context(), r, r, up.Options{}) // recorded before addresses were
	if without := (&up.Lab{Ports: r.Ports}); err != nil || r.Ports.Engine != 8124 || without.EngineURL() != "http://[::1]:8124" {
		t.Errorf("IPv6 without the estate: %s, %v", without.EngineURL(), err)
	}
	l.Estate.Clusters[hub].Kind = kind
	l.Containers = published{}
	r, err = l.Settle(t.Context(), state.Record{}, state.Record{Lab: "demo"}, up.Options{})
	if err != nil || r.Ports.Engine < 8080 || r.Ports.Forge < 3000 || r.Ports.Engine == r.Ports.Forge {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestPending(t *testing.T) {
	s := newStage(t)
	l := (&process{stage: s}).lab()
	if name, resumed, err := l.Pending(t.Context(), "ready", "lab snapshot restore"); name != "ready" || resumed || err != nil {
		t.Errorf("%s, %t, %v", name, resumed, err)
	}
	if name, _, err := l.Pending(t.Context(), "", ""); name != "" || err != nil {
		t.Errorf("%s, %v", name, err)
	}
	_, err := (&process{stage: s}).up(t.Context(), up.Options{})
	must(t, err)
	var e *lab.Error
	if _, _, err := l.Pending(t.Context(), "ready", "lab snapshot restore"); !errors.As(err, &e) || e.Code != "exists" || !strings.HasSuffix(e.Cure, "lab snapshot restore") {
		t.Errorf("%v", err)
	}
	must(t, s.dir.SaveRestoring("ready"))
	for from, resumes := range map[string]bool{"": true, "ready": true, "other": false} {
		if name, resumed, err := l.Pending(t.Context(), from, ""); err != nil || resumed != resumes || from != "" && name != from {
			t.Errorf("from %q: %s, %t, %v", from, name, resumed, err)
		}
	}
}

func TestHeld(t *testing.T) {
	est := &lab.Estate{Clusters: []lab.Cluster{{Name: "hub"}, {Name: "dev"}}}
	o := snapshot.Snapshot{Contents: snapshot.Contents{Clusters: map[string][]string{"hub": {"n"}}}}
	if got := up.Held(est, o); !got.Others || len(got.Clusters) != 1 || got.Clusters[0].Name != "hub" {
		t.Errorf("%+v", got)
	}
	o.Contents.Clusters["dev"] = []string{"m"}
	if got := up.Held(est, o); got.Others {
		t.Errorf("%+v", got)
	}
}

func TestRemoveSnapshots(t *testing.T) {
	s := newStage(t)
	_, err := (&process{stage: s}).up(t.Context(), up.Options{})
	must(t, err)
	l := (&process{stage: s}).lab()
	_, err = l.SaveSnapshot(t.Context(), "ready", false, up.Consent{}, func(string) {})
	must(t, err)
	r, err := l.Remove(t.Context(), up.DownOptions{Existed: true}, func(string) {})
	must(t, err)
	if !slices.Equal(r.Kept, []string{"ready"}) || !slices.Contains(r.Removed, "folder "+s.dir.Path) {
		t.Errorf("%+v", r)
	}
	r, err = l.Remove(t.Context(), up.DownOptions{Snapshots: true}, func(string) {})
	if err != nil || len(r.Kept) > 0 || !slices.Equal(r.Removed, []string{"snapshot ready"}) {
		t.Errorf("%+v, %v", r, err)
	}
}
