package up_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/state"
	"homelab/lab/up"
)

// silentEngine is a container engine that does not answer.
type silentEngine struct{ containers }

func (silentEngine) Answers(context.Context) error { return errFull }

// Without a container engine, removing a lab fails, and whether there is one is unknown without its record.
func TestDownWithoutContainerEngine(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	p := &process{stage: s}
	l := p.lab()
	l.Containers = silentEngine{}
	var e *lab.Error
	if _, err := l.Remove(t.Context(), up.DownOptions{Existed: true}, silent); !errors.As(err, &e) || e.Code != "no_engine" || !errors.Is(err, errFull) {
		t.Errorf("%v", err)
	}
	if !s.dir.Exists() || len(p.calls) > 0 {
		t.Errorf("calls %q", p.calls)
	}
	must(t, s.dir.Remove()) // the record is lost, the containers may not be
	if r, err := l.Remove(t.Context(), up.DownOptions{}, silent); !errors.As(err, &e) || e.Code != "no_engine" || !strings.Contains(e.Message, "unknown") || len(r.Removed) > 0 {
		t.Errorf("without a record: %v, %+v", err, r)
	}
}

// Remove reports a state folder that it cannot delete.
func TestDownFolderStays(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	l := (&process{stage: s}).lab()
	l.Dir = &state.Dir{Lab: "demo", Path: s.dir.Path + "/."} // os.RemoveAll refuses it
	for _, c := range []up.Containers{l.Containers, silentEngine{}} {
		l.Containers = c
		_, silenced := c.(silentEngine)
		if _, err := l.Remove(t.Context(), up.DownOptions{Existed: !silenced}, silent); err == nil || !strings.Contains(err.Error(), "state folder") {
			t.Errorf("%v", err)
		}
	}
}

// Down deletes what an unfinished restore unpacked, with or without a network.
func TestDownCleansUp(t *testing.T) {
	for name, network := range map[string]bool{"with a network": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			if network {
				converge(t, s)
			}
			p := &process{stage: s}
			removed, _, err := p.lab().Down(t.Context(), up.DownOptions{}, silent)
			must(t, err)
			if !slices.Contains(p.calls, "snapshots.clean") || slices.Contains(removed, "network lab-demo") != network {
				t.Errorf("removed %q, calls %q", removed, p.calls)
			}
			if network {
				converge(t, s)
			}
			if _, _, err := failing(s, "snapshots.clean").lab().Down(t.Context(), up.DownOptions{}, silent); !errors.Is(err, errFull) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A lab whose snapshots cannot be removed keeps its record.
func TestDownSnapshotsStay(t *testing.T) {
	s := newStage(t)
	saved(t, s)
	l := (&process{stage: s}).lab()
	l.Snapshots = stuck{s.shelf}
	if _, err := l.Remove(t.Context(), up.DownOptions{Existed: true, Snapshots: true}, silent); !errors.Is(err, errFull) || !s.dir.Exists() {
		t.Errorf("%v", err)
	}
}

// stuck are snapshots that cannot be removed.
type stuck struct{ *shelf }

func (stuck) Remove(context.Context, ...string) error { return errFull }

func TestLeavingInvalid(t *testing.T) {
	s := attachedLab(t)
	var e *lab.Error
	if steps, _, err := (&process{stage: s}).lab().Leaving(t.Context(), up.DownOptions{Abandon: []string{"dev"}}); !errors.As(err, &e) || e.Exit != lab.ExitInvalid || steps != nil {
		t.Errorf("%v, %v", steps, err)
	}
}

// Remove reports why the engine cannot withdraw, and deletes nothing.
func TestDownWithoutWithdraw(t *testing.T) {
	for name, c := range map[string]struct {
		spoil   func(s *stage)
		fails   string
		message string
	}{
		"the hub is stopped":       {func(s *stage) { s.clusters.Stop("hub") }, "", "cluster hub is stopped"},
		"the hub was lost":         {func(s *stage) { s.clusters.Lose("hub") }, "", "no hub"},
		"the engine is silent":     {func(*stage) {}, "engine.observe", errFull.Error()},
		"never noted, and silent":  {func(s *stage) { must(s.t, s.dir.Save(state.Record{Lab: "demo"})) }, "engine.observe", errFull.Error()},
		"it cannot be reached":     {func(*stage) {}, "clusters.rest-config edge", errFull.Error()},
		"the record is unreadable": {func(s *stage) { must(s.t, os.WriteFile(s.dir.Path+"/lab.json", []byte("{"), 0o600)) }, "", "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			s := attachedLab(t)
			c.spoil(s)
			before := s.clusters.Contents()
			_, err := failing(s, c.fails).lab().Remove(t.Context(), up.DownOptions{Existed: true}, silent)
			var all []string
			for e := err; e != nil; e = errors.Unwrap(e) {
				all = append(all, e.Error())
			}
			if !strings.Contains(strings.Join(all, "\n"), c.message) {
				t.Errorf("error %q, want %q", all, c.message)
			}
			if after := s.clusters.Contents(); !slices.Equal(before, after) {
				t.Errorf("contents changed:\n%q\n%q", before, after)
			}
		})
	}
}

// A failed connection to the hub does not count as a hub without an engine.
func TestDownWithoutConnection(t *testing.T) {
	s := attachedLab(t)
	must(t, s.dir.Save(state.Record{Lab: "demo"}))
	l := (&process{stage: s}).lab()
	l.Connect = func(string) (up.Engine, error) { return nil, errFull }
	var e *lab.Error
	if _, err := l.Remove(t.Context(), up.DownOptions{Existed: true}, silent); !errors.As(err, &e) || e.Code != "no_engine" || !errors.Is(err, errFull) || len(s.installed()) == 0 {
		t.Errorf("%v", err)
	}
}

// Objects left in attached clusters are reported, as are clusters that were not released.
func TestDownAttached(t *testing.T) {
	s := attachedLab(t)
	l := (&process{stage: s}).lab()
	connect := l.Connect
	l.Connect = func(hub string) (up.Engine, error) {
		e, err := connect(hub)
		return keeping{e}, err
	}
	r, err := l.Remove(t.Context(), up.DownOptions{Existed: true}, silent)
	if must(t, err); !slices.Equal(r.Stays, []string{"namespace podinfo"}) {
		t.Errorf("remaining %q", r.Stays)
	}
	want := []string{"cluster edge", "cluster dev", "cluster hub", "cluster prod", "forge lab-demo-forge", "network lab-demo"}
	if got := fmt.Sprint(r.Removed); got != fmt.Sprint(append(want, "folder "+s.dir.Path)) {
		t.Errorf("removed %s", got)
	}

	s = attachedLab(t)
	_, err = failing(s, "clusters.forget edge").lab().Remove(t.Context(), up.DownOptions{Existed: true, Abandon: []string{"edge"}}, silent)
	if !errors.Is(err, errFull) || !s.dir.Exists() {
		t.Errorf("abandoned: %v", err)
	}
}

// keeping is an engine that leaves objects behind.
type keeping struct{ up.Engine }

func (e keeping) Withdraw(ctx context.Context, spokes map[string]*rest.Config, p lab.Progress) ([]string, error) {
	_, err := e.Engine.Withdraw(ctx, spokes, p)
	return []string{"namespace podinfo"}, err
}
