package up_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"homelab/lab"
	"homelab/lab/cluster/clustertest"
	"homelab/lab/state"
	"homelab/lab/up"
)

// A lab whose containers are on another engine is neither recreated nor forgotten.
func TestAnotherContainerEngine(t *testing.T) {
	s := newStage(t)
	s.docker = "one"
	converge(t, s)
	must(t, s.dir.Save(state.Record{Lab: "demo", Engine: state.Engine{Type: lab.EngineArgoCD}}))
	_, err := (&process{stage: s}).lab().SaveSnapshot(t.Context(), "ready", false, up.Consent{}, silent)
	must(t, err)
	idle := func(id string) {
		t.Helper()
		s.docker = id
		if out, err := (&process{stage: s}).lab().Follow(t.Context(), up.Options{}, &audience{}); err != nil || !out.Idle {
			t.Fatalf("on %s: %+v, %v", id, out.Steps, err)
		}
		if r, err := s.dir.Load(); err != nil || r.Docker != (state.Docker{ID: id, Address: "unix:///" + id}) {
			t.Errorf("on %s: recorded %+v, %v", id, r.Docker, err)
		}
	}
	idle("one")
	canaries, files := s.clusters.Whole(), filesIn(t, s.dir.Path, "")

	away := newStage(t)
	away.dir, away.docker = s.dir, "two"
	away.clusters, away.shelf = clustertest.NewFake(away.machine, s.dir), newShelf(away)
	var e *lab.Error
	for name, run := range map[string]func(*up.Lab) error{
		"up":      func(l *up.Lab) error { _, err := l.Follow(t.Context(), up.Options{}, &audience{}); return err },
		"dry run": func(l *up.Lab) error { _, err := l.Observe(t.Context(), up.Options{}); return err },
		"down": func(l *up.Lab) error {
			_, err := l.Remove(t.Context(), up.DownOptions{Existed: true}, silent)
			return err
		},
		"leaving": func(l *up.Lab) error { _, _, err := l.Leaving(t.Context(), up.DownOptions{}); return err },
		"status":  func(l *up.Lab) error { _, err := l.Status(t.Context()); return err },
		"restore": func(l *up.Lab) error { _, err := l.Restore(t.Context(), "ready", up.Consent{}, silent); return err },
	} {
		e = nil
		if err := run((&process{stage: away}).lab()); !errors.As(err, &e) || e.Code != "other_docker" || !strings.Contains(strings.Join(e.Details, "\n"), "unix:///one") ||
			!strings.Contains(strings.Join(e.Details, "\n"), "unix:///two") {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(files, filesIn(t, s.dir.Path, "")); diff != "" {
			t.Fatalf("%s changed the lab's files: %s", name, diff)
		}
	}
	if made := away.clusters.Whole(); len(made) > 0 {
		t.Errorf("created on the other engine: %v", made)
	}

	idle("one")
	s.requireKept(t, canaries, "on its own engine again")
	idle("three") // same engine, new id

	_, cure, _ := strings.Cut(e.Cure, "rm -r ")
	dir, _, _ := strings.Cut(cure, ",")
	must(t, os.RemoveAll(dir))
	if _, err := (&process{stage: away}).up(t.Context(), up.Options{}); err != nil || len(away.clusters.Whole()) != 3 {
		t.Errorf("after following the cure: %v", err)
	}
}
