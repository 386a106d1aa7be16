package up_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"homelab/lab/up"
)

var errFull = errors.New("no space left on device")

// A run reports the failure of each of its calls. In an existing lab, a failed read may be retried or not be needed.
func TestCallFailureReported(t *testing.T) {
	all := maps.Clone(journeys)
	all["restore"] = journey{first: restore, prepare: func(t *testing.T, s *stage) { spoiled(t, s) }}
	all["up stopped"] = journey{first: plainUp, prepare: stopped}
	for name, j := range all {
		if name == "up after down" {
			continue // same first run as "down"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play := func(fails string) (calls []string, err error) {
				s := newStage(t)
				j.prepare(t, s)
				p := &process{stage: s, hit: func(_ int, call string) effect {
					if call == fails {
						return effect{before: errFull}
					}
					return effect{}
				}}
				err = j.first(t.Context(), p)
				slices.Sort(p.calls)
				return slices.Compact(p.calls), err
			}
			up := slices.Contains([]string{"up prune", "up left", "up release", "up edited", "down attached", "up stopped", "up recreate", "up switch"}, name)
			calls, err := play("")
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range calls {
				if up && readOnly(call) {
					continue
				}
				if _, err := play(call); err == nil || !strings.Contains(fmt.Sprint(err), errFull.Error()) {
					t.Errorf("%s fails: error = %v", call, err)
				}
			}
		})
	}
}

func restore(ctx context.Context, p *process) error {
	_, err := p.lab().Restore(ctx, "one", up.Consent{}, silent)
	return err
}

// stopped returns a lab after a reboot.
func stopped(t *testing.T, s *stage) {
	converge(t, s)
	for _, name := range []string{"hub", "dev", "prod"} {
		s.clusters.Stop(name)
	}
	s.forge.Stop()
}

func TestRestoreReplacesLab(t *testing.T) {
	s := newStage(t)
	spoiled(t, s)
	p := &process{stage: s}
	must(t, restore(t.Context(), p))
	place := slices.Index(p.calls, "snapshots.place")
	for _, call := range []string{"clusters.delete hub", "clusters.delete dev", "clusters.delete prod", "forge.remove", "snapshots.stage"} {
		if at := slices.Index(p.calls, call); at < 0 || at > place {
			t.Errorf("%s is call %d, want before snapshots.place, call %d", call, at, place)
		}
	}
}

// A repaired cluster records both the images it had and those it now needs.
func TestRepairedClusterImages(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	seen := func() []string {
		t.Helper()
		states, err := s.clusters.Observe(t.Context(), "dev")
		must(t, err)
		return states[0].Images
	}
	states, err := s.clusters.Observe(t.Context(), "dev")
	must(t, err)
	needed := slices.Clone(states[0].Images)
	must(t, s.clusters.Mark(t.Context(), "dev", states[0].Inputs, append(needed, "earlier")))
	s.clusters.Stop("dev")
	must(t, plainUp(t.Context(), &process{stage: s}))
	if got := seen(); !slices.Contains(got, "earlier") || len(got) != len(needed)+1 {
		t.Errorf("images %q, want %q and earlier", got, needed)
	}
}

// askError is an audience whose Ask fails.
type askError struct{ audience }

func (*askError) Ask(context.Context, string, []string) (bool, error) { return false, errFull }

func TestFollowAskError(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, s *stage){
		"no longer in the estate": departed,
		"recreate": func(t *testing.T, s *stage) {
			converge(t, s)
			edit(s.files, "clusters/dev/cluster.yaml", "{role: control-plane}", "{role: control-plane}, {role: worker}")
			s.load()
		},
	} {
		s := newStage(t)
		prepare(t, s)
		was := s.clusters.Whole()
		p := &process{stage: s}
		if _, err := p.lab().Follow(t.Context(), up.Options{}, &askError{}); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", name, err)
		}
		s.requireKept(t, was, name)
		if at := slices.IndexFunc(p.calls, func(call string) bool { return !readOnly(call) }); at >= 0 {
			t.Errorf("%s: %s was called", name, p.calls[at])
		}
	}
}

func TestRemoveProgress(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	var progress []string
	_, err := (&process{stage: s}).lab().Remove(t.Context(), up.DownOptions{Existed: true}, func(line string) { progress = append(progress, line) })
	must(t, err)
	for _, what := range []string{"cluster hub", "cluster dev", "cluster prod", "network"} {
		if !slices.ContainsFunc(progress, func(line string) bool { return strings.HasPrefix(line, "removing ") && strings.Contains(line, what) }) {
			t.Errorf("no removal of %s in progress %q", what, progress)
		}
	}
	if s.dir.Exists() {
		t.Error("state folder exists")
	}
}
