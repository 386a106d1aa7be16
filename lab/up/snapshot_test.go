package up_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/forge"
	"homelab/lab/snapshot"
	"homelab/lab/snapshot/snapshottest"
	"homelab/lab/up"
)

// shelf stores the snapshots of a stage.
type shelf struct {
	*stage
	*snapshottest.Fake
}

// gitea is the forge of the stage's supply.
var gitea = forge.Spec{Image: lab.Image{Ref: "example.org/gitea:1", Digest: "sha256:gitea"}, Gate: lab.Image{Ref: "example.org/gate:1"}}

func newShelf(s *stage) *shelf {
	sh := &shelf{stage: s}
	sh.Fake = &snapshottest.Fake{Machine: sh, Lab: "demo"}
	return sh
}

func (sh *shelf) Take(containers []string) (func() (map[string]string, error), error) {
	folder, err := os.MkdirTemp(filepath.Dir(sh.dir.Path), "snapshot")
	if err != nil {
		return nil, err
	}
	clusters := sh.clusters.Take(containers)
	server, err := sh.forge.Take(folder)
	var parts []func()
	for _, part := range sh.parts {
		if slices.Contains(containers, lab.PartName("demo", part.Name)) {
			parts = append(parts, part.Take())
		}
	}
	return func() (map[string]string, error) {
		ids, err := clusters()
		for _, restore := range parts {
			restore()
		}
		if err == nil {
			err = server()
		}
		return ids, err
	}, err
}

func (sh *shelf) Wake([]string) error { return nil } // the next run starts stopped containers

// calledSnapshots routes every call through the process.
type calledSnapshots struct {
	*shelf
	p *process
}

func (c *calledSnapshots) List(ctx context.Context) (list []snapshot.Snapshot, err error) {
	err = c.p.call("snapshots.list", func() (err error) { list, err = c.Fake.List(ctx); return err })
	return list, err
}

func (c *calledSnapshots) Clean(ctx context.Context) error {
	return c.p.call("snapshots.clean", func() error { return c.Fake.Clean(ctx) })
}

func (c *calledSnapshots) Stage(ctx context.Context, o snapshot.Snapshot, p lab.Progress) error {
	return c.p.call("snapshots.stage", func() error { return c.Fake.Stage(ctx, o, p) })
}

func (c *calledSnapshots) Place(ctx context.Context, o snapshot.Snapshot, p lab.Progress) (ids map[string]string, err error) {
	err = c.p.call("snapshots.place", func() (err error) { ids, err = c.Fake.Place(ctx, o, p); return err })
	return ids, err
}

func (c *calledSnapshots) Start(ctx context.Context, o snapshot.Snapshot, network string) error {
	return c.p.call("snapshots.start", func() error { return c.Fake.Start(ctx, o, network) })
}

// spoiled converges a lab, saves it as snapshot "one" and changes it. It returns the forge's head at the time of the snapshot.
func spoiled(t *testing.T, s *stage) (head string) {
	t.Helper()
	converge(t, s)
	_, err := (&process{stage: s}).lab().SaveSnapshot(t.Context(), "one", false, up.Consent{}, silent)
	must(t, err)
	head = s.head(t)
	s.edit()
	converge(t, s)
	if s.head(t) == head {
		t.Fatal("head unchanged by the edit")
	}
	return head
}

func silent(string) {}

func (s *stage) head(t *testing.T) string {
	t.Helper()
	st, err := s.forge.Observe(t.Context())
	must(t, err)
	return st.Revision
}

// TestRestore restores lost clusters and the forge's commit.
func TestRestore(t *testing.T) {
	s := newStageWithParts(t)
	head := spoiled(t, s)
	canaries := s.clusters.Whole()
	s.clusters.Lose("dev")
	s.clusters.Stop("prod")
	must(t, os.Remove(filepath.Join(s.dir.Path, "credentials.json")))
	l := (&process{stage: s}).lab()
	if _, err := l.Restore(t.Context(), "one", up.Consent{}, silent); err != nil {
		t.Fatal(err)
	}
	s.requireKept(t, canaries, "after the restore")
	states, err := s.clusters.Observe(t.Context())
	must(t, err)
	for _, c := range states {
		if !c.Recorded {
			t.Errorf("no record of cluster %s: %+v", c.Name, s.dir.Cluster(c.Name))
		}
	}
	if got, err := s.dir.Credentials(); err != nil || !reflect.DeepEqual(got, credentials) {
		t.Errorf("credentials differ: %v", err)
	}
	must(t, l.Forge.Start(t.Context(), gitea, 0, silent))
	if got := s.head(t); got != head {
		t.Errorf("forge at %s, want %s", got, head)
	}
	if name := s.dir.Restoring(); name != "" {
		t.Errorf("restore of %s still pending", name)
	}
	if _, err := (&process{stage: s}).up(t.Context(), up.Options{}); err != nil {
		t.Fatal(err)
	}
	s.requireKept(t, canaries, "after a run")
}

func TestSaveSnapshotIncomplete(t *testing.T) {
	for name, spoil := range map[string]func(*stage){
		"no clusters":      func(s *stage) { s.clusters.Lose("hub"); s.clusters.Lose("dev"); s.clusters.Lose("prod") },
		"no forge":         func(s *stage) { must(s.t, s.forge.Remove(s.t.Context())) },
		"pending restore":  func(s *stage) { must(s.t, s.dir.SaveRestoring("two")) },
		"unproven cluster": func(s *stage) { s.clusters.Unmark("dev"); must(s.t, s.dir.ForgetCluster("dev")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			converge(t, s)
			spoil(s)
			var e *lab.Error
			if _, err := (&process{stage: s}).lab().SaveSnapshot(t.Context(), "one", false, up.Consent{}, silent); !errors.As(err, &e) || e.Code != "partial" || e.Cure == "" {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestRestoreFaults injects every fault at every call of a restore: the lab is as before or as in the snapshot, and the snapshot is kept.
func TestRestoreFaults(t *testing.T) {
	quiet := newStageWithParts(t)
	spoiled(t, quiet)
	p := &process{stage: quiet}
	if _, err := p.lab().Restore(t.Context(), "one", up.Consent{}, silent); err != nil {
		t.Fatal(err)
	}
	if len(p.calls) < 8 {
		t.Fatalf("restore of %d calls, want at least 8: %v", len(p.calls), p.calls)
	}
	for n, call := range p.calls {
		for _, fault := range []string{"killed before", "killed after", "interrupted", "call fails", "call fails late"} {
			t.Run(fmt.Sprintf("%s/%d %s", fault, n, call), func(t *testing.T) {
				t.Parallel()
				restoreWith(t, fault, n)
			})
		}
	}
}

func restoreWith(t *testing.T, fault string, at int) {
	s := newStageWithParts(t)
	head := spoiled(t, s)
	later := s.head(t)
	canaries := s.clusters.Whole()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := &process{stage: s}
	p.hit = func(n int, _ string) effect {
		if n != at {
			return effect{}
		}
		return faults[fault](s, p, cancel)
	}
	_, err := p.lab().Restore(ctx, "one", up.Consent{}, silent)
	list, lerr := s.shelf.List(t.Context())
	if lerr != nil || !slices.ContainsFunc(list, func(o snapshot.Snapshot) bool { return o.Name == "one" }) {
		t.Fatalf("snapshot lost: %v, %v", list, lerr)
	}
	want := head
	switch pending := s.dir.Restoring(); {
	case pending != "": // resume, as lab up does
		if st, err := (&process{stage: s}).lab().Status(t.Context()); err != nil || !slices.Contains(st.Off, "the restore of snapshot one has not ended") {
			t.Errorf("%v, %v", st.Off, err)
		}
		if _, err := (&process{stage: s}).lab().Restore(t.Context(), pending, up.Consent{}, silent); err != nil {
			t.Fatal(err)
		}
	case err != nil:
		want = later
	}
	s.requireKept(t, canaries, "after the restore with the fault")
	if st, err := (&process{stage: s}).lab().Status(t.Context()); err != nil || slices.ContainsFunc(st.Off, func(off string) bool { return strings.Contains(off, "restore") }) {
		t.Errorf("%v, %v", st.Off, err)
	}
	if want == later {
		if got := s.head(t); got != later {
			t.Errorf("restore did not begin, but forge at %q", got)
		}
		return
	}
	must(t, s.forge.Start(t.Context(), gitea, 0, silent))
	if got := s.head(t); got != want {
		t.Errorf("forge at %s, want %s", got, want)
	}
}
